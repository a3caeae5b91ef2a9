package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/quavon/quavon/doctor"
	"github.com/quavon/quavon/runner/fault"
)

func (c Config) settings() []*doctor.Check {
	return []*doctor.Check{
		{
			Code: "QD935", Name: "env-file", Title: "compose can read .env", Group: groupSettings,
			Severity: doctor.Failure, DefaultFix: "correct the line: NAME=value, with 'single quotes' around what isn't plain",
			Run: c.envFile,
		},
		{
			Code: "QD936", Name: "env-profiles", Title: "each profile that is switched on has a service", Group: groupSettings,
			Needs: []string{"QD935"}, Severity: doctor.Warning,
			DefaultFix: "separate names by commas in COMPOSE_PROFILES, and leave out the others", Run: c.envProfiles,
		},
		{
			Code: "QD937", Name: "env-values", Title: "the settings are what they look like", Group: groupSettings,
			Needs: []string{"QD935"}, Severity: doctor.Warning, DefaultFix: "write what is listed as NAME='value', once", Run: c.envValues,
		},
		{
			Code: "QD938", Name: "env-secrets", Title: "nobody else can read the installation's secrets", Group: groupSettings,
			Needs: []string{"QD935"}, Severity: doctor.Failure, DefaultFix: "run `chmod 600` on what is listed, and change the secrets",
			Run: c.envSecrets,
		},
	}
}

const noEnv = "there is no .env here, and --env-file names none"

func (c Config) envFile(context.Context) doctor.Finding {
	file, _, all, err := c.readEnv()
	switch bad := (*unreadable)(nil); {
	case errors.As(err, &bad):
		return doctor.Failed(file+": "+bad.Error(), "")
	case errors.Is(err, fs.ErrPermission):
		return doctor.Unknown(err)
	case err != nil:
		return failed(err)
	case file == "":
		return doctor.Skipped(noEnv)
	}
	return doctor.Passed(fmt.Sprintf("%s has %d settings", file, len(all)))
}

// failed is a finding of an error that has its own fix.
func failed(err error) doctor.Finding {
	f := doctor.Unknown(err)
	f.State = doctor.Fail
	return f
}

const profilesKey = "COMPOSE_PROFILES"

// envProfiles splits the names as compose does, at commas only.
func (c Config) envProfiles(context.Context) doctor.Finding {
	file, _, all, err := c.readEnv()
	if err != nil {
		return doctor.Unknown(err)
	}
	values := map[string]string{}
	for _, s := range all {
		values[s.key] = s.value
	}
	value, from, inShell := values[profilesKey], file, false
	if shell := c.Host.Env(profilesKey); shell != "" {
		value, from, inShell = shell, "the environment, which counts more than "+file, true
	}
	if value == "" {
		return doctor.Skipped("no profile is switched on")
	}
	known, files, err := c.profiles(path.Dir(file), values["COMPOSE_FILE"])
	switch {
	case err != nil:
		return doctor.Unknown(err)
	case len(files) == 0:
		return doctor.Skipped("there is no compose file beside " + file)
	}
	var strange []string
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); name != "" && name != "*" && !slices.Contains(known, name) {
			s := fmt.Sprintf("no service has the profile %q", name)
			if strings.ContainsAny(name, " ;\t") {
				s += ": it is one name to compose, which splits at commas only"
			}
			strange = append(strange, s)
		}
	}
	if len(strange) > 0 {
		return doctor.Failed(profilesKey+" of "+from+" switches on what isn't there",
			meantProfiles(value, known, inShell), strange...)
	}
	return doctor.Passed(fmt.Sprintf("%s is %s, by %s", profilesKey, value, from))
}

// meantProfiles sets those of a value's names that there are, in the shell or in .env.
func meantProfiles(value string, known []string, inShell bool) string {
	names := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",; \t", r) })
	names = slices.DeleteFunc(names, func(n string) bool { return n != "*" && !slices.Contains(known, n) })
	fix := "write `" + profilesKey + "="
	switch {
	case inShell && len(names) == 0:
		fix = "run `unset " + profilesKey
	case inShell:
		fix = "run `export " + profilesKey + "="
	}
	slices.Sort(known)
	return fix + strings.Join(names, ",") + "`; the profiles that there are: " + strings.Join(slices.Compact(known), ", ")
}

// profiles are those of the services in the compose files of a directory.
func (c Config) profiles(dir, named string) (known, files []string, err error) {
	names := []string{
		"compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml", "compose.override.yaml",
		"compose.override.yml", "docker-compose.override.yml", "docker-compose.override.yaml",
	}
	if named != "" {
		names = strings.Split(named, ":")
	}
	for _, name := range names {
		if !path.IsAbs(name) {
			name = path.Join(dir, name)
		}
		data, err := c.Host.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		var project struct {
			Include  []any
			Services map[string]struct{ Profiles []string }
		}
		if err := yaml.Unmarshal(data, &project); err != nil {
			return nil, nil, fmt.Errorf("%s is no compose file: %w", name, err)
		}
		if len(project.Include) > 0 {
			return nil, nil, fmt.Errorf("%s includes other files, whose profiles aren't known here", name)
		}
		files = append(files, name)
		for _, s := range project.Services {
			known = append(known, s.Profiles...)
		}
	}
	return known, files, nil
}

// envValues never shows a value.
func (c Config) envValues(context.Context) doctor.Finding {
	file, text, all, err := c.readEnv()
	if err != nil {
		return doctor.Unknown(err)
	}
	var o oddities
	byKey := map[string][]envSetting{}
	for _, s := range all {
		s.surprises(&o)
		byKey[s.key] = append(byKey[s.key], s)
		if shell := c.Host.Env(s.key); shell != "" && shell != s.value && strings.HasPrefix(s.key, "QUAVON_") {
			o.add(fmt.Sprintf("line %d, %s: the environment has another value, which counts more", s.line, s.key),
				"run "+fault.Command("unset", s.key))
		}
	}
	for _, key := range sortedKeys(byKey) {
		o.twice(key, byKey[key])
	}
	if strings.Contains(text, "\r\n") {
		o.add("lines end as on Windows: compose reads them, `source .env` and systemd keep the carriage returns",
			"run "+fault.Command("sed", "-i", `s/\r$//`, file))
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		o.add("the last line has no end: what is appended would be glued to it", "run `echo >>"+fault.Word(file)+"`")
	}
	if len(o.found) > 0 {
		return doctor.Failed(file+" has settings that aren't what they look like", o.fix(file), o.found...)
	}
	return doctor.Passed(fmt.Sprintf("%d settings, each once and plain", len(all)))
}

// envSecrets looks at .env, when it has secrets, and at the directory secrets beside
// it, which closes what is in it.
func (c Config) envSecrets(context.Context) doctor.Finding {
	file, _, all, err := c.readEnv()
	if err != nil {
		return doctor.Unknown(err)
	}
	var open, fixes, seen []string
	if slices.ContainsFunc(all, func(s envSetting) bool { return s.isSecret() }) {
		info, err := c.Host.Stat(file)
		if err != nil {
			return doctor.Unknown(err)
		}
		seen = append(seen, file)
		if info.Mode.Perm()&0o077 != 0 {
			open = append(open, fmt.Sprintf("%s has mode %04o", file, info.Mode.Perm()))
			fixes = append(fixes, fault.Words("chmod", "600", file))
		}
	}
	dir := path.Join(path.Dir(file), "secrets")
	readable, there, err := c.readableIn(dir)
	if err != nil {
		return doctor.Unknown(err)
	}
	if len(readable) > 0 {
		// The directory closes them all, those of tomorrow too.
		open, fixes = append(open, readable...), append(fixes, fault.Words("chmod", "700", dir))
	}
	if there {
		seen = append(seen, dir)
	}
	switch {
	case len(open) > 0:
		return doctor.Failed("secrets can be read by others", "run `"+strings.Join(fixes, " && ")+"`, and change the secrets", open...)
	case len(seen) == 0:
		return doctor.Skipped(file + " has no secret, and there is no directory " + dir)
	}
	return doctor.Passed("only the owner reads " + strings.Join(seen, ", "))
}

// readableIn are the files in a directory that others can read; there says that it has
// any file, or is closed.
func (c Config) readableIn(dir string) (open []string, there bool, err error) {
	info, err := c.Host.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil || info.Mode.Perm()&0o077 == 0 {
		return nil, true, err
	}
	names, err := c.Host.ReadDir(dir)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		p := path.Join(dir, name)
		info, err := c.Host.Stat(p)
		if err != nil {
			return nil, false, err
		}
		if info.Mode.Perm()&0o077 != 0 {
			open = append(open, fmt.Sprintf("%s has mode %04o", p, info.Mode.Perm()))
		}
	}
	return open, len(names) > 0, nil
}
