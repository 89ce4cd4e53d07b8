package eventlog

import (
	"fmt"
)

// The names that the public form of the log uses. Their indexes are the numbers that the log stores.
var (
	kindNames = []string{
		1: "EpochStarted",
		2: "Upserted",
		3: "Deleted",
		4: "Tick",
		5: "Decision",
		6: "BindResult",
		7: "EvictResult",
		8: "ExtenderResult",
		9: "Watched",
	}
	outcomeNames = []string{
		1: "Scheduled",
		2: "Waiting",
		3: "Unschedulable",
		4: "Error",
		5: "Evicted",
		6: "Reserved",
		7: "Asked",
	}
	endingNames      = []string{1: "NotFirst", 2: "NoTime", 3: "OtherReason"}
	bindOutcomeNames = []string{1: "Bound", 2: "Conflict", 3: "Failed", 4: "Unknown"}

	evictOutcomeNames = []string{1: "Done", 2: "Gone", 3: "Refused", 4: "GivenUp", 5: "Withdrawn"}
)

// String returns the kind's name in the public form of the log.
func (k Kind) String() string { return nameOf(kindNames, uint8(k), "Kind") }

// String returns the outcome's name in the public form of the log.
func (o Outcome) String() string { return nameOf(outcomeNames, uint8(o), "Outcome") }

// String returns the ending's name in the public form of the log, "" for none.
func (e Ending) String() string {
	if e == 0 {
		return ""
	}
	return nameOf(endingNames, uint8(e), "Ending")
}

// String returns the outcome's name in the public form of the log.
func (o BindOutcome) String() string { return nameOf(bindOutcomeNames, uint8(o), "BindOutcome") }

// String returns the outcome's name in the public form of the log.
func (o EvictOutcome) String() string { return nameOf(evictOutcomeNames, uint8(o), "EvictOutcome") }

func nameOf(names []string, number uint8, typ string) string {
	if int(number) >= len(names) || number == 0 {
		return fmt.Sprintf("%s(%d)", typ, number)
	}
	return names[number]
}

// numberOf returns the number that has the name; 0 if there is none.
func numberOf(names []string, name string) uint8 {
	for i := 1; i < len(names); i++ {
		if names[i] == name {
			return uint8(i)
		}
	}
	return 0
}
