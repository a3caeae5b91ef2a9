package commands

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// setting is one value of a service's configuration: a flag counts more than the
// environment, which counts more than the file.
type setting struct {
	// name is the environment variable's, and the one in the file.
	name string
	// flag is "" for secrets: command lines can be read by everyone.
	flag, def, help string
	secret          bool

	value, from string
}

// settings are a verb's, in the order in which they are shown.
type settings struct {
	list []*setting
	file string
	// flags are the values given on the command line, by flag.
	flags map[string]*string
	// printOnly is a service's: show the settings and end.
	printOnly bool
}

// envConfig names a file of settings.
const envConfig = "QUAVON_CONFIG_FILE"

// defaultConfig is read when it is there and no other is named.
const defaultConfig = "/etc/quavon/sandbox.env"

func newSettings(list ...*setting) *settings {
	s := &settings{list: list, flags: map[string]*string{}}
	for _, x := range list {
		x.value, x.from = x.def, "default"
	}
	return s
}

func (s *settings) register(f *pflag.FlagSet) {
	f.StringVar(&s.file, "config", "", "file of NAME=value lines (default: "+envConfig+", else "+defaultConfig+" if there is one)")
	for _, x := range s.list {
		if x.flag == "" {
			continue
		}
		help := x.help + " (" + x.name
		if x.def != "" {
			help += ", default " + x.def
		}
		s.flags[x.flag] = f.String(x.flag, "", help+")")
	}
}

// load finds each setting's value.
func (s *settings) load(p *program, changed func(flag string) bool) error {
	file, err := s.readFile(p)
	if err != nil {
		return err
	}
	for _, x := range s.list {
		if v, ok := file[x.name]; ok {
			x.value, x.from = v, "file"
		}
		// An empty variable is what compose files make of one that isn't set.
		if v := p.env(x.name); v != "" {
			x.value, x.from = v, "environment"
		}
		if x.flag != "" && changed(x.flag) {
			x.value, x.from = *s.flags[x.flag], "flag"
		}
	}
	return nil
}

// maxConfig bounds a file of settings, in bytes.
const maxConfig = 1 << 20

func (s *settings) readFile(p *program) (map[string]string, error) {
	path, must := s.file, true
	if path == "" {
		path = p.env(envConfig)
	}
	if path == "" {
		path, must = defaultConfig, false
	}
	text, err := bounded.ReadFile(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, "read the settings", "correct --config or "+envConfig)
	}
	values, err := s.parse(bytes.NewReader(text))
	if err != nil {
		return nil, fault.Wrap(err, "read the settings in "+path, "write NAME=value lines; --print-config shows the names")
	}
	return values, nil
}

// parse reads NAME=value lines, as systemd and compose do: # begins a comment line,
// and quotes around a value are left out. Errors never show a value.
func (s *settings) parse(r io.Reader) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !ok {
			return nil, fmt.Errorf("line %d is no NAME=value", n)
		}
		if s.find(name) == nil {
			if (strings.HasPrefix(name, "QUAVON_SANDBOX_") || strings.HasPrefix(name, "VALKEY_")) && !known(name) {
				return nil, fmt.Errorf("line %d: %.60q is not known here", n, name)
			}
			continue // the file may serve others too
		}
		value = strings.TrimSpace(value)
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			value = value[1 : len(value)-1]
		}
		values[name] = value
	}
	return values, lines.Err()
}

// known says whether any verb has the setting: a host's runner, egress service and those
// who submit share one file.
func known(name string) bool {
	for _, list := range [][]*setting{queueSettings(), runnerSettings(), egressSettings(), doctorSettings()} {
		if slices.ContainsFunc(list, func(x *setting) bool { return x.name == name }) {
			return true
		}
	}
	return false
}

func (s *settings) find(name string) *setting {
	i := slices.IndexFunc(s.list, func(x *setting) bool { return x.name == name })
	if i < 0 {
		return nil
	}
	return s.list[i]
}

// get is a setting's value. Asking for one that the verb doesn't have is a mistake
// of ours.
func (s *settings) get(name string) string { return s.find(name).value }

// show writes all settings and where they come from, in the file's own form.
func (s *settings) show(w io.Writer) error {
	for _, x := range s.list {
		value := x.value
		if x.secret && value != "" {
			value = "(hidden)"
		}
		if _, err := fmt.Fprintf(w, "# from: %s\n%s=%s\n", x.from, x.name, value); err != nil {
			return err
		}
	}
	return nil
}

// secretOf is a secret by its file or its value. The file counts more: what is in it
// doesn't show in the process's environment.
func (s *settings) secretOf(name string) (string, error) {
	path := s.get(name + "_FILE")
	if path == "" {
		return s.get(name), nil
	}
	text, err := bounded.ReadFile(path, maxSecret)
	if err != nil {
		return "", fault.Wrap(err, "read the secret that "+name+"_FILE names", "correct the path, and make the file readable for you")
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// registerService registers the flags of a verb that is a service.
func (s *settings) registerService(f *pflag.FlagSet) {
	s.register(f)
	f.SortFlags = false
	f.BoolVar(&s.printOnly, "print-config", false, "show all settings, secrets hidden, and where they come from")
}

// serve loads a service's settings, and shows them or runs it.
func (s *settings) serve(p *program, cmd *cobra.Command, run func() error) error {
	if err := s.load(p, cmd.Flags().Changed); err != nil {
		return err
	}
	if s.printOnly {
		return s.show(p.IO.Out)
	}
	return run()
}
