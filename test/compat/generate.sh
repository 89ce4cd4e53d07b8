#!/usr/bin/env bash
# generate.sh writes the logs of one behaviour, and what is known of them, for the tests of this package.
#
#	go build -o rollcall ./cmd/rollcall && test/compat/generate.sh ./rollcall test/compat/testdata/behaviourN
#
# It takes a binary that writes that behaviour, and a folder that does not exist yet. The folder of a behaviour that a
# release has is never written again. See doc.go for what the files are. All of them together have at most 2 MB.
set -euo pipefail
rollcall=$(realpath "$1")
mkdir "$2"
out=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# simulate NAME NODES WORKLOAD FLAGS... writes the log NAME.
simulate() {
	"$rollcall" simulate --nodes "$2" --workload "$3" --log "$1" "${@:4}" >summary.txt 2>notes.txt ||
		{ cat summary.txt notes.txt; return 1; }
}

# last LOG prints the number of the log's last entry.
last() { "$rollcall" log cat "$1" | tail -n 1 | sed 's/^{"seq":\([0-9]*\),.*/\1/'; }

# record NAME QUESTION... keeps the log or bundle NAME, the hash of its state after some entries, what log cat prints of it,
# and the answers to the questions, each the arguments of explain.
record() {
	local name=$1 end at i=0 question
	mkdir "$out/$name"
	if [ -f "$name" ]; then cp "$name" "$out/$name/bundle"; else tar -czf "$out/$name/log.tar.gz" --exclude=api.sock -C "$name" .; fi
	"$rollcall" log cat "$name" | gzip -9n >"$out/$name/cat.jsonl.gz"
	end=$(last "$name")
	for at in $((end / 4)) $((end / 2)) $((end * 3 / 4)) "$end"; do
		"$rollcall" log export "$name" --up-to "$at" --out part >/dev/null 2>&1 || continue # before what is known
		echo "$at $("$rollcall" replay part -o json | sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p')" >>"$out/$name/states.txt"
		rm part
	done
	for question in "${@:2}"; do
		i=$((i + 1))
		echo "$question" >>"$out/$name/questions.txt"
		# The answer to question i; the words of a question have no spaces in them.
		# shellcheck disable=SC2086
		"$rollcall" explain "$name" $question -o json >"$out/$name/answer$i.json"
	done
}

cp "$here"/testdata/workloads/* .

# Every 25th node and the first pods of the openb trace, as log cat printed them.
gunzip openb.jsonl.gz
simulate openb openb.jsonl openb.jsonl
record openb "pod default/openb-pod-0140" "pod default/openb-pod-0017 --at 200"

simulate preemption preemption.yaml preemption.yaml
record preemption "pod default/urgent" "group default/gang" "group default/low"
simulate topology topology.yaml topology.yaml
record topology "group default/large" "group default/ports" "pod default/must-4"
simulate volumes volumes.yaml volumes.yaml
record volumes "pod default/b" "group default/gang"
simulate composites composites.yaml composites.yaml
record composites "group default/pair" "group default/never" "group default/left"

# A scheduler that was started again in the middle.
simulate restarted gangs.yaml gangs.yaml --until 5m
simulate restarted gangs.yaml gangs.yaml --until 21m --resume
simulate restarted gangs.yaml gangs.yaml --resume
record restarted "group default/wide" "group default/third" "pod default/mistyped" "pod default/elastic-5 --at 100"

# One that was killed: the log as it was left. It tells of effects, so that it waits for the disk.
"$rollcall" simulate --nodes 6x4cpu --workload backfill.swf --log killed --effects told --segment-size 65536 \
	--snapshot-every 200 --queue-policy Backfill >summary.txt 2>notes.txt &
until [ "$(cat told 2>/dev/null | wc -l)" -gt 60 ]; do :; done
kill -9 $!
wait $! || true
record killed "group default/job-12"

# Reservations, snapshots, and segments that were archived.
simulate archived 6x4cpu backfill.swf --segment-size 32768 --queue-policy Backfill
for at in 600 900 1200; do # those of a simulation come when its writer has the time
	"$rollcall" log snapshot archived --at "$at" >/dev/null
done
"$rollcall" log archive archived --before 650 --to archive >/dev/null
record archived "group default/job-40" "group default/job-30 --at 1000"
tar -czf "$out/archived/archive.tar.gz" -C archive .
"$rollcall" log export archived --from 900 --out incident >/dev/null
record incident "group default/job-40"

# The stories of package transcripts, a bundle each, with the hash of the state after every entry. Two of them, whose epochs have
# different configurations, stand for themselves.
: "${STORIES:?is the folder that go test ./test/transcripts -story-logs FOLDER wrote}"
"$rollcall" log import "$STORIES/restart-config_changes.bundle" --log reconfigured >/dev/null
record reconfigured
"$rollcall" log import "$STORIES/backfill-policy_changes.bundle" --log policy-changed >/dev/null
record policy-changed
tar -czf "$out/stories.tar.gz" -C "$STORIES" .
