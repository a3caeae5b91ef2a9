package commands

import "errors"

// ExitCode is the process's exit code.
type ExitCode int

// Exit codes of all verbs but run.
const (
	exitOK    ExitCode = 0
	exitFail  ExitCode = 1
	exitUsage ExitCode = 2
	// exitNotRun says that what was asked could not be found out.
	exitNotRun ExitCode = 3
)

// Exit codes of quavon run that are not the job's own.
const (
	exitTimeout  ExitCode = 124
	exitOurs     ExitCode = 125
	exitKilled   ExitCode = 137
	exitNoReader ExitCode = 141
	// exitCancelled is submit's, for a job that somebody else has cancelled.
	exitCancelled ExitCode = 130
)

// exitError ends a verb with a code; Err is nil when all was said already.
type exitError struct {
	Code ExitCode
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

// codeOf is the exit code for an error, fallback when it doesn't say.
func codeOf(err error, fallback ExitCode) ExitCode {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.Code
	}
	return fallback
}

const exitCodesHelp = `Exit codes of quavon run and quavon submit:

  0–123, 128+n  the job's own exit; 128+n after signal n
  124           the job ran longer than --timeout
  125           quavon itself failed: wrong usage, no sandbox, unknown outcome
  126, 127      the command could not be started, or was not found
  130, 143      interrupted by Ctrl-C; by SIGTERM; 130 also when somebody else cancelled
                what was submitted
  137           ended by a limit: memory, processes or output
  141           nobody read the job's output any more, or it could not be written

A job can exit with any of these by itself. To tell, read "reason" of --json.

quavon scan, quavon fix-check and quavon doctor exit with 0, with 1 for what they found,
with 3 when that could not be found out. Other commands exit with 0, with 1 when they
failed. All exit with 2 for wrong usage.
`
