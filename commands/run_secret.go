package commands

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
	"github.com/quavon/quavon/runner/workspace"
)

const (
	secretUsage = "id=NAME,url=URL,header=HEADER,env=VARIABLE|src=FILE: " +
		"credential that the job uses at that URL without seeing it (repeatable)"
	secretForm = `write --secret id=NAME,url=https://HOST[/PATH],header=HEADER,env=VARIABLE, or src=FILE in place of env; ` +
		`a part with a comma is quoted: "src=a,b"`
	// maxSecretFile leaves room for the newline that ends a file's value.
	maxSecretFile = 8 << 10
)

// secretFlags are what --secret was given, and what is around it.
type secretFlags struct {
	texts []string
	// workspace is the directory of --workspace, or "none"; the job sees what is in
	// shown, and may have made what is in either.
	workspace string
	shown     []string
	lookupEnv func(string) (string, bool)
}

// read reads what --secret names. No error shows what was written: somebody may
// have put the value there.
func (f secretFlags) read() ([]job.Secret, error) {
	var list []job.Secret
	for i, text := range f.texts {
		s, err := f.secret(text)
		if err != nil {
			return nil, &fault.Error{
				What: fmt.Sprintf("--secret, number %d", i+1), Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected),
			}
		}
		list = append(list, s)
	}
	return list, nil
}

func (f secretFlags) secret(text string) (job.Secret, error) {
	p, err := secretParts(text)
	if err != nil {
		return job.Secret{}, err
	}
	if p["id"] == "" || p["url"] == "" || p["header"] == "" || (p["env"] == "") == (p["src"] == "") {
		return job.Secret{}, fault.New("needs id, url, header, and one of env and src", secretForm)
	}
	value, err := f.value(p["env"], p["src"])
	return job.Secret{Name: p["id"], URL: p["url"], Header: p["header"], Value: job.NewValue(value)}, err
}

// secretParts splits KEY=VALUE[,KEY=VALUE...], quoted as CSV is where a value has a
// comma, as docker's --mount has it.
func secretParts(text string) (map[string]string, error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 1 { // the error may quote it
		return nil, fault.New("isn't one line of parts with commas between", secretForm)
	}
	parts := map[string]string{}
	for _, part := range rows[0] {
		k, v, _ := strings.Cut(part, "=")
		switch k {
		case "id", "url", "header", "env", "src":
		default:
			return nil, fault.New("has a part that is none of id, url, header, env and src", secretForm)
		}
		if _, twice := parts[k]; twice || v == "" {
			return nil, fault.New(k+" is empty or given twice", secretForm)
		}
		parts[k] = v
	}
	return parts, nil
}

// value is that of quavon's own variable, or of a file.
func (f secretFlags) value(variable, file string) (string, error) {
	if file == "" {
		value, ok := f.lookupEnv(variable)
		if !ok {
			return "", fault.New("the variable that env names isn't set", "export it, or name a file: src=FILE")
		}
		return trimNewline(value), nil
	}
	if err := f.checkFile(file); err != nil {
		return "", err
	}
	b, err := bounded.ReadFile(file, maxSecretFile)
	if err != nil {
		return "", fault.New("the file that src names can't be read, or is too long", "name a file that holds the value alone")
	}
	return trimNewline(string(b)), nil
}

// checkFile refuses a file that a link in the workspace leads to, which a job may have
// made, and one that the job sees anyway.
func (f secretFlags) checkFile(file string) error {
	if f.workspace != "none" {
		if err := workspace.CheckOutput(file, f.workspace); err != nil {
			return fault.New("src leads through a symbolic link in the workspace", "a job may have made that link: name the file itself")
		}
	}
	real, err := filepath.Abs(file)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return nil //nolint:nilerr // reading it will tell
	}
	for _, dir := range f.shown {
		if job.Within(real, dir) {
			return fault.New("src is in a directory that the job sees", "keep the file elsewhere, or use env=VARIABLE")
		}
	}
	return nil
}

func trimNewline(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }
