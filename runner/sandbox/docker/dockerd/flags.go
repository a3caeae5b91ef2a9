package dockerd

import (
	"slices"
	"strings"
)

// flagNames are dockerd's flags for keys that are called otherwise in the file.
var flagNames = map[string][]string{
	"hosts": {"host", "H"}, "debug": {"debug", "D"}, "labels": {"label"}, "dns-opts": {"dns-opt"}, "log-opts": {"log-opt"},
	"storage-opts": {"storage-opt"}, "exec-opts": {"exec-opt"}, "insecure-registries": {"insecure-registry"},
	"registry-mirrors": {"registry-mirror"}, "authorization-plugins": {"authorization-plugin"}, "group": {"group", "G"},
	"log-level": {"log-level", "l"}, "storage-driver": {"storage-driver", "s"}, "bridge": {"bridge", "b"}, "pidfile": {"pidfile", "p"},
	"default-ulimits": {"default-ulimit"}, "default-address-pools": {"default-address-pool"}, "cdi-spec-dirs": {"cdi-spec-dir"},
	"default-network-opts": {"default-network-opt"}, "node-generic-resources": {"node-generic-resource"},
	"host-gateway-ips": {"host-gateway-ip"}, "features": {"feature"},
}

// Twice says whether a key of the file is also among dockerd's flags, with which it
// refuses to start and to reload. It lets runtimes be given in both places.
func Twice(args []string, key string) bool {
	names := flagNames[key]
	if names == nil {
		names = []string{key}
	}
	return key != "runtimes" && slices.ContainsFunc(names, func(name string) bool { return len(Flags(args, name)) > 0 })
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
