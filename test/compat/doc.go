// Package compat keeps logs of every behaviour that a release has, and tests that this version still works with them.
// It reads them, recovers the states that were recorded, decides every decision again, and explains them as before.
// docs/RELIABILITY.md makes that promise. Only tests import the package.
//
// # Test data
//
// There is a folder for each behaviour (see eventlog.EpochStarted), from behaviour 10 on:
//
//	testdata/behaviourN/NAME/log.tar.gz      a log: its segments and snapshots; or
//	testdata/behaviourN/NAME/bundle          a bundle (rollcall log export)
//	testdata/behaviourN/NAME/archive.tar.gz  the log's archived segments, if there are any
//	testdata/behaviourN/NAME/states.txt      sequence numbers, and the hash of the state after each of these entries
//	testdata/behaviourN/NAME/cat.jsonl.gz    what log cat printed
//	testdata/behaviourN/NAME/questions.txt   arguments of explain, a question a line
//	testdata/behaviourN/NAME/answerN.json    what explain -o json said to the question in line N
//	testdata/behaviourN/stories.tar.gz       for each story of package transcripts, STORY.bundle and STORY.states:
//	                                         the first eight bytes of the hash after each entry; all of the last one
//	testdata/workloads                       what the logs are simulations of
//	testdata/unreleased                      a log and a bundle of behaviour 9, which are refused
//
// Until release 0.1.0, a change of behaviour 10, of its format or of the state's encoding writes the folder of
// behaviour 10 again. The folder of a behaviour that a release has is never written again: a change adds a behaviour,
// and a folder. generate.sh writes one, with the binary that has the change:
//
//	go build -o rollcall ./cmd/rollcall
//	mkdir stories && go test ./test/transcripts -story-logs "$PWD/stories"
//	STORIES=$PWD/stories test/compat/generate.sh ./rollcall test/compat/testdata/behaviourN
//
// The tests here check entries and states. The tests in cmd/rollcall/app check the output of the commands.
//
// Start reading at Each, in logs.go.
package compat
