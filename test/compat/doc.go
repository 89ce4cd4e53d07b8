// Package compat keeps logs that earlier versions of rollcall wrote, and tests that this version still works with them:
// it reads them, recovers the states that were recorded, decides every decision again, and explains them as before.
// docs/RELIABILITY.md makes that promise. Only tests import the package.
//
// # Test data
//
// There is a folder for each behaviour (see eventlog.EpochStarted), which the first version with that behaviour wrote:
//
//	testdata/behaviour1/NAME/log.tar.gz      a log: its segments and snapshots; or
//	testdata/behaviour1/NAME/bundle          a bundle (rollcall log export)
//	testdata/behaviour1/NAME/archive.tar.gz  the log's archived segments, if there are any
//	testdata/behaviour1/NAME/states.txt      sequence numbers, and the hash of the state after each of these entries
//	testdata/behaviour1/NAME/cat.jsonl.gz    what log cat printed
//	testdata/behaviour1/NAME/questions.txt   arguments of explain, a question a line
//	testdata/behaviour1/NAME/answerN.json    what explain -o json said to the question in line N
//	testdata/behaviour1/stories.tar.gz       for each story of package transcripts, STORY.bundle and STORY.states:
//	                                         the first eight bytes of the hash after each entry; all of the last one
//	testdata/workloads                       what the logs are simulations of
//
// A folder that is committed is never written again. A change of the format, the state's encoding or the behaviour adds
// a folder, written by generate.sh with the binary that has the change:
//
//	go build -o rollcall ./cmd/rollcall
//	mkdir stories && go test ./test/transcripts -story-logs "$PWD/stories"
//	STORIES=$PWD/stories test/compat/generate.sh ./rollcall test/compat/testdata/behaviourN
//
// The tests here look at entries and states. What the commands print is tested in cmd/rollcall/app.
//
// Start reading at Each, in logs.go.
package compat
