// Package commands is the command line: it parses flags, hands a job to the
// runner and shows what became of it. Each verb is an options struct, a
// constructor for its cobra command and a function that runs it.
package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quavon/quavon/commands/interrupt"
	"github.com/quavon/quavon/commands/iostreams"
	"github.com/quavon/quavon/runner/fault"
)

// Main runs a command line, such as os.Args, and returns the process's exit code.
func Main(ctx context.Context, args []string, in, out, errOut *os.File) int {
	ctx, hurry := interrupt.Notify(ctx)
	p := &program{IO: iostreams.System(in, out, errOut), Hurry: hurry, LookupEnv: os.LookupEnv}
	return int(p.run(ctx, args[1:]))
}

// program is what every verb gets from its surroundings.
type program struct {
	IO        *iostreams.Streams
	Hurry     <-chan struct{}
	LookupEnv func(string) (string, bool)
	Log       *slog.Logger

	logFormat, logLevel string
}

func (p *program) env(key string) string {
	v, _ := p.LookupEnv(key)
	return v
}

func (p *program) run(ctx context.Context, args []string) ExitCode {
	p.Log = slog.New(slog.DiscardHandler)
	out := &firstError{to: p.IO.Out}
	p.IO.Out = out
	root := newRoot(p)
	root.SetArgs(args)
	root.SetIn(p.IO.In)
	root.SetOut(out)
	root.SetErr(p.IO.ErrOut)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.first()
	}
	p.report(err)
	fallback := exitFail
	switch usage := (*usageError)(nil); {
	case cmd.Name() == "run", cmd.Name() == "submit":
		fallback = exitOurs
	case errors.As(err, &usage):
		fallback = exitUsage
	}
	return codeOf(err, fallback)
}

// firstError remembers that something could not be written, which not every writer of
// help and tables tells.
type firstError struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

func (w *firstError) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = cmp.Or(w.err, err)
	}
	return n, err
}

func (w *firstError) first() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func newRoot(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:     "quavon",
		Short:   "Run untrusted code in throwaway sandboxes",
		Version: ownVersion(),
		Long:    "Quavon runs code that nobody trusts in throwaway sandboxes, and shows what it did.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{cmd, fmt.Errorf("%q is not a command of quavon", args[0])}
			}
			return nil
		},
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseEmpty(cmd, args); err != nil {
				return err
			}
			return p.openLog()
		},
	}
	root.SetVersionTemplate("quavon {{.Version}}\n")
	root.SetHelpCommand(newHelp())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd, err} })
	root.PersistentFlags().StringVar(&p.logFormat, "log-format", "text", "format of messages on stderr: text or json")
	root.PersistentFlags().StringVar(&p.logLevel, "log-level", "warn", "least severe messages to show: debug, info, warn or error")
	root.AddCommand(
		newRun(p, runJob), newScan(p, runScan), newFixCheck(p, runFixCheck), newSubmit(p, submitJob), newStatus(p, showStatus),
		newRunner(p, runRunner), newEgress(p, runEgress), newDockerGuard(p), newBuild(p), newDoctor(p, runDoctor), newImages(p),
		newSupportBundle(p, makeBundle), newInstall(p), newUninstall(p), newRollback(p), newVersion(p), newMan(p), newExitCodes(),
	)
	return root
}

// usageError is a command line that can't be understood.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usageArgs makes a wrong number of arguments a usage error, in our words.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		for i := len(args) - 1; i >= 0; i-- {
			switch {
			case check(cmd, args[:i]) != nil:
			case cmd.HasSubCommands():
				return &usageError{cmd, fmt.Errorf("%q is not a command of %s", args[i], cmd.CommandPath())}
			default:
				return &usageError{cmd, fmt.Errorf("%q is one argument too many", args[i])}
			}
		}
		return &usageError{cmd, fault.New("an argument is missing", "write "+cmd.UseLine())}
	}
}

// openLog makes the logger that the flags ask for.
func (p *program) openLog() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.logLevel)); err != nil {
		return &usageError{err: fault.New(fmt.Sprintf("--log-level %q is unknown", p.logLevel), "use debug, info, warn or error")}
	}
	options := &slog.HandlerOptions{Level: level}
	switch p.logFormat {
	case "text":
		p.Log = slog.New(slog.NewTextHandler(p.IO.ErrOut, options))
	case "json":
		p.Log = slog.New(slog.NewJSONHandler(p.IO.ErrOut, options))
	default:
		return &usageError{err: fault.New(fmt.Sprintf("--log-format %q is unknown", p.logFormat), "use text or json")}
	}
	return nil
}

// report shows an error and what to do about it on stderr.
func (p *program) report(err error) {
	if err == nil || err.Error() == "" {
		return
	}
	hint := fault.Hint(err)
	if errors.Is(err, syscall.EMFILE) { // whatever it was that met it
		hint = "raise the number of files that a process may have open: ulimit -n 1024"
	}
	if usage := (*usageError)(nil); hint == "" && errors.As(err, &usage) && usage.cmd != nil {
		hint = fmt.Sprintf("%s --help shows the usage", usage.cmd.CommandPath())
	}
	p.say(err.Error(), hint)
}

// say prints one message for a person, with a hint when there is one; as a JSON
// line when --log-format asks for those.
func (p *program) say(message, hint string) {
	if p.logFormat == "json" {
		p.Log.Error("message", "text", message, "hint", hint)
		return
	}
	mark := func(s, color string) string {
		if !p.IO.Color() {
			return s
		}
		return "\x1b[" + color + "m" + s + "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", mark("quavon:", "1;31"), printable(message))
	if hint != "" {
		fmt.Fprintf(&b, "%s %s\n", mark("hint:", "1"), printable(hint))
	}
	_, _ = io.WriteString(p.IO.ErrOut, b.String()) // there is nowhere else to say it
}

// printable makes a message harmless to a terminal: errors carry names that a job
// has chosen. Later lines are indented, so that none looks like one of ours.
func printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n':
			b.WriteString("\n  ")
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return b.String()
}

// newHelp is cobra's own, but for what isn't there: that is a mistake, and no reason to
// show something else.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return &usageError{cmd.Root(), fmt.Errorf("%q is not a command of quavon", strings.Join(args, " "))}
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func newExitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesHelp}
}
