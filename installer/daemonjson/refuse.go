package daemonjson

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Refusals are the reasons for which dockerd doesn't start with the file although its
// own --validate finds nothing, as measured with 26.1.5. args are dockerd's.
func (f *File) Refusals(args []string) []string {
	var wrong []string
	defined := map[string]bool{"runc": true}
	for _, k := range f.keys {
		if strings.EqualFold(k.name, "runtimes") && k.name != "runtimes" {
			wrong = append(wrong, fmt.Sprintf("%q must be written runtimes", k.name))
		}
		if k.name != "runtimes" || f.isNull(k) {
			continue
		}
		for _, e := range members(f.text, k.value) {
			defined[e.name] = true
			if why := refused(e.name, f.text[e.value:e.end]); why != "" {
				wrong = append(wrong, fmt.Sprintf("runtime %q: %s", e.name, why))
			}
		}
	}
	for _, added := range Flags(args, "add-runtime") {
		name, _, _ := strings.Cut(added, "=")
		defined[name] = true
	}
	if def := f.defaultRuntime(); def != "" && !defined[def] && !strings.HasPrefix(def, "io.containerd.") {
		wrong = append(wrong, fmt.Sprintf("default-runtime names %q, which is not defined", def))
	}
	return wrong
}

// refused says why dockerd would not start with a runtime, "" for none.
func refused(name string, raw []byte) string {
	var r struct {
		Path        string          `json:"path"`
		RuntimeType string          `json:"runtimeType"`
		Args        json.RawMessage `json:"runtimeArgs"`
		Options     json.RawMessage `json:"options"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "it is no object with path and runtimeArgs"
	}
	var list []string
	switch {
	case name == "runc":
		return "the name is reserved"
	case r.Path == "" && r.RuntimeType == "":
		return "it has neither path nor runtimeType"
	case r.Path != "" && r.RuntimeType != "":
		return "it has both path and runtimeType"
	case r.Args != nil && json.Unmarshal(r.Args, &list) != nil:
		return "runtimeArgs is no list of strings"
	case r.RuntimeType != "" && len(list) > 0:
		return "runtimeType takes no runtimeArgs"
	case r.Path != "" && r.Options != nil && string(r.Options) != "null":
		return "path takes no options"
	}
	return ""
}

func (f *File) defaultRuntime() (name string) {
	for _, k := range f.keys {
		if k.name == "default-runtime" {
			_ = json.Unmarshal(f.text[k.value:k.end], &name) // dockerd --validate knows types
		}
	}
	return name
}

// flagNames are dockerd's flags for keys that are called otherwise in the file.
var flagNames = map[string][]string{
	"hosts": {"host", "H"}, "debug": {"debug", "D"}, "labels": {"label"}, "dns-opts": {"dns-opt"}, "log-opts": {"log-opt"},
	"storage-opts": {"storage-opt"}, "exec-opts": {"exec-opt"}, "insecure-registries": {"insecure-registry"},
	"registry-mirrors": {"registry-mirror"}, "authorization-plugins": {"authorization-plugin"}, "group": {"group", "G"},
	"log-level": {"log-level", "l"}, "storage-driver": {"storage-driver", "s"}, "bridge": {"bridge", "b"}, "pidfile": {"pidfile", "p"},
}

// Twice are the keys that are also flags of dockerd, which then refuses to start and to
// reload; it exempts runtimes.
func (f *File) Twice(args []string) []string {
	var both []string
	for _, k := range f.keys {
		names := flagNames[k.name]
		if names == nil {
			names = []string{k.name}
		}
		for _, name := range names {
			if k.name != "runtimes" && len(Flags(args, name)) > 0 {
				both = append(both, k.name)
				break
			}
		}
	}
	return both
}

// Flags are the values of a flag as pflag reads them, "" for a bare one at the end.
func Flags(args []string, name string) []string {
	flag := "--" + name
	if len(name) == 1 {
		flag = "-" + name
	}
	var out []string
	for i, a := range args {
		value, ok := strings.CutPrefix(a, flag)
		switch {
		case !ok:
		case value == "" && i+1 < len(args):
			out = append(out, args[i+1])
		case value == "" || value[0] == '=' || len(name) == 1:
			out = append(out, strings.TrimPrefix(value, "="))
		}
	}
	return out
}
