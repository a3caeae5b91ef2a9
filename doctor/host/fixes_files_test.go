package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quavon/quavon/doctor"
)

// envState is a .env file with which a check fails.
func envState(code, name, text string, first func(*house, doctor.Finding)) hostState {
	return hostState{code: code, name: name, first: first, make: func(h *house) {
		h.write(envPath, text, 0o600)
		h.write("/opt/quavon/compose.yaml", "services:\n  a: {image: x, profiles: [sandbox]}\n  b: {image: x, profiles: [b]}\n", 0o644)
	}}
}

func envStates() []hostState {
	shell := envState("QD937", "shell", "QUAVON_SANDBOX_CONCURRENCY=4\n", nil)
	profile := envState("QD936", "shell", "COMPOSE_PROFILES=sandbox\n", nil)
	for s, assign := range map[*hostState]string{&shell: "QUAVON_SANDBOX_CONCURRENCY=8", &profile: "COMPOSE_PROFILES=dev b"} {
		file := s.make
		s.make = func(h *house) {
			file(h)
			name, value, _ := strings.Cut(assign, "=")
			h.Setenv(name, value)
		}
	}
	return []hostState{
		envState("QD935", "space", "A=1\nMY NAME=x\n", quoteLine),
		envState("QD935", "unterminated", "A=\"x\nB=1\n", quoteLine),
		envState("QD935", "template", "A=${\n", quoteLine),
		envState("QD936", "semicolon", "COMPOSE_PROFILES=sandbox;b\n", writeAssignment),
		envState("QD936", "misspelled", "COMPOSE_PROFILES=sandbx,b\n", writeAssignment),
		profile,
		envState("QD937", "no-newline", "A=1\nB=2", nil),
		envState("QD937", "dollar", "A=pa$ss\n", quoteNamed),
		envState("QD937", "dollar-double", "A=\"pa$ss\"\n", quoteNamed),
		envState("QD937", "dollar-secret", "VALKEY_PASSWORD=pa$ss\n", moveSecrets),
		envState("QD937", "doubled", "A='pa$$ss'\n", func(h *house, _ doctor.Finding) {
			h.edit(envPath, func(s string) string { return strings.ReplaceAll(s, "$$", "$") })
		}),
		envState("QD937", "secret", "API_TOKEN=\"x y\"\n", moveSecrets),
		envState("QD937", "comment", "VALKEY_PASSWORD=abc #def\n", moveSecrets),
		shell,
		envState("QD937", "windows", "A=1\r\nB=2\r\n", nil),
		envState("QD937", "carriage", "A=1\rB\nC=1\n", func(h *house, _ doctor.Finding) {
			h.edit(envPath, func(s string) string { return strings.ReplaceAll(s, "\r", "") })
		}),
		envState("QD937", "twice", "A=1\nB='x\ny'\nA=2\nB=3\nA=4", nil),
		envState("QD937", "nameless", "A=1\nB", nil),
		envState("QD937", "spaces", "A=' x '\n", func(h *house, _ doctor.Finding) {
			h.edit(envPath, func(s string) string { return strings.ReplaceAll(s, " ", "") })
		}),
		envState("QD937", "trailing", "A='x'y\n", quoteNamed),
		envState("QD937", "address", "redis://x\n", func(h *house, _ doctor.Finding) {
			h.edit(envPath, func(s string) string { return "NAME='" + strings.TrimSpace(s) + "'\n" })
		}),
		{code: "QD938", name: "env", make: func(h *house) { h.write(envPath, "API_TOKEN=x\n", 0o644) }},
		{code: "QD938", name: "directory", make: func(h *house) {
			h.write(envPath, "API_TOKEN=x\n", 0o644)
			for i := range 12 {
				h.write(fmt.Sprintf("/opt/quavon/secrets/it's %d", i), "x", 0o644)
			}
			h.write("/opt/quavon/secrets/more/x", "x", 0o644)
		}},
	}
}

var storageStates = []hostState{
	{code: "QD940", name: "group", make: func(h *house) { h.must(os.Chmod("/var/lib/quavon", 0o775)) }},
	{code: "QD940", name: "parent", make: func(h *house) {
		h.must(os.MkdirAll("/srv/it's open/quavon", 0o755))
		h.must(os.Chmod("/srv/it's open", 0o777))
		h.Setenv("QUAVON_STATE_DIR", "/srv/it's open/quavon")
	}},
	{code: "QD940", name: "owner", make: func(h *house) { h.must(os.Chown("/var/lib/quavon", 1000, 0)) }},
	{code: "QD940", name: "sticky", byHand: true, make: func(h *house) {
		h.must(os.Mkdir("/srv/tmp", 0o755))
		h.must(os.Chmod("/srv/tmp", 0o777|os.ModeSticky))
		h.Setenv("QUAVON_STATE_DIR", "/srv/tmp/quavon")
	}, first: func(h *house, _ doctor.Finding) { h.Setenv("QUAVON_STATE_DIR", "/srv/own") }},
	// What is to be removed is the operator's to choose.
	{code: "QD941", name: "inodes", byHand: true, make: func(h *house) {
		h.must(unix.Mount("state", "/var/lib/quavon", "tmpfs", 0, "mode=0755,size=20g,nr_inodes=1000"))
		for i := 0; ; i++ {
			if err := os.WriteFile(fmt.Sprintf("/var/lib/quavon/%d", i), nil, 0o600); err != nil {
				return
			}
		}
	}, first: func(h *house, _ doctor.Finding) {
		for i := range 500 {
			h.must(os.Remove(fmt.Sprintf("/var/lib/quavon/%d", i)))
		}
	}},
	{code: "QD942", name: "state", make: func(h *house) {
		h.Setenv("QUAVON_STATE_DIR", "/srv/"+strings.Repeat("x", 60))
	}, first: func(h *house, f doctor.Finding) {
		_, path, _ := strings.Cut(f.Fix, "at most, as ")
		h.Setenv("QUAVON_STATE_DIR", path)
	}},
	{code: "QD942", name: "socket", make: func(h *house) {
		h.Setenv("VALKEY_HOST", "/srv/"+strings.Repeat("x", 110))
	}, first: func(h *house, _ doctor.Finding) { h.Setenv("VALKEY_HOST", "/run/valkey.sock") }},
	{code: "QD943", name: "open", make: func(h *house) {
		h.write("/etc/quavon/the key's", "x", 0o644)
		h.write("/etc/quavon/url", "x", 0o640)
		h.Setenv("QUAVON_SANDBOX_SIGNING_KEY_FILE", "/etc/quavon/the key's")
		h.Setenv("VALKEY_URL_FILE", "/etc/quavon/url")
	}},
	{code: "QD943", name: "missing", make: func(h *house) {
		h.write("/etc/quavon/key", "x", 0o600)
		h.Setenv("VALKEY_URL_FILE", "/etc/quavon/kye")
	}, first: func(h *house, f doctor.Finding) {
		h.Setenv(strings.TrimPrefix(f.Fix, "correct "), "/etc/quavon/key")
	}},
	{code: "QD944", name: "mounts", make: func(h *house) {
		for _, name := range []string{"images", "sandboxes"} {
			h.must(os.MkdirAll(filepath.Join("/var/lib/quavon", name), 0o755))
		}
		h.must(unix.Mount("volume", "/var/lib/quavon/images", "tmpfs", 0, "mode=0755"))
	}},
}

var userStates = []hostState{
	{code: "QD945", name: "user", make: func(h *house) {
		h.run("useradd", "-u", "60000", "-U", "bob")
	}, then: func(h *house, _ doctor.Finding) { h.run("id", "bob") }},
	{code: "QD945", name: "numbers-in-use", make: func(h *house) {
		h.run("useradd", "-u", "59999", "ann")
		h.run("useradd", "-u", "65532", "-N", "bob")
		h.run("useradd", "-u", "60000", "-N", "eve")
		h.run("groupadd", "-g", "65533", "staff2")
	}},
	{code: "QD945", name: "delegated", make: func(h *house) {
		h.run("useradd", "-u", "1500", "ann")
		h.run("useradd", "-u", "1501", "eve")
		h.write("/etc/subuid", "ann:50000:65536\neve:200000:65536\n", 0o644)
		h.write("/etc/subgid", "ann:50000:65536\neve:60000:10\n", 0o644)
	}, then: func(h *house, _ doctor.Finding) {
		for file, want := range map[string]string{"/etc/subuid": "ann:265536:65536", "/etc/subgid": "ann:115536:65536"} {
			if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), want) {
				h.Errorf("%s has %q, want %q: %v", file, data, want, err)
			}
		}
	}},
}
