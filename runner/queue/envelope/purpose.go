package envelope

import "fmt"

// Purpose says what a message is for and which way it goes. Keys differ by purpose,
// so that none can stand for another.
type Purpose byte

// Purposes. Numbers are part of the protocol.
const (
	PurposeJob      Purpose = 1 // submitter to runner: what to run
	PurposeResult   Purpose = 2 // runner to submitter: what became of it
	PurposeHealth   Purpose = 3 // runner to all: what it is and can
	PurposeControl  Purpose = 4 // submitter to runner: cancel
	PurposeSnapshot Purpose = 5 // submitter to runner: files
	PurposeFiles    Purpose = 6 // runner to submitter: files
	PurposeOutput   Purpose = 7 // runner to submitter: what a job prints
	PurposeVerdict  Purpose = 8 // whoever sweeps, to submitter: the job ended without a runner
	PurposeHost     Purpose = 9 // the API to all: which host it is on

	PurposeChallenge Purpose = 10 // the doctor to a runner: show that you are there, and look
	PurposeAnswer    Purpose = 11 // a runner to the doctor: what it saw
)

var purposes = [...]string{
	1: "job", "result", "health record", "control message", "snapshot", "result file", "output", "verdict", "host record", "challenge",
	"answer",
}

// String names the purpose for people.
func (p Purpose) String() string {
	if int(p) < len(purposes) && purposes[p] != "" {
		return purposes[p]
	}
	return fmt.Sprintf("message of purpose %d", byte(p))
}
