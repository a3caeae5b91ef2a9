package commands

import (
	"fmt"
	"strings"

	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/job"
)

const (
	secretForm = "write --secret id=NAME,url=https://HOST[/PATH],header=HEADER,env=VARIABLE, or src=FILE in place of env"
	// maxSecretFile leaves room for the newline that ends a file's value.
	maxSecretFile = 8 << 10
)

// secrets reads what --secret names. No error shows what was written: somebody may
// have put the value there.
func (o *runOptions) secrets() ([]job.Secret, error) {
	var list []job.Secret
	for i, text := range o.Secrets {
		s, err := o.secret(text)
		if err != nil {
			return nil, &fault.Error{
				What: fmt.Sprintf("--secret, number %d", i+1), Err: err, Hint: fault.Hint(err), Code: string(job.ReasonRejected),
			}
		}
		list = append(list, s)
	}
	return list, nil
}

func (o *runOptions) secret(text string) (job.Secret, error) {
	f := map[string]string{}
	for _, part := range strings.Split(text, ",") {
		k, v, _ := strings.Cut(part, "=")
		switch k {
		case "id", "url", "header", "env", "src":
		default:
			return job.Secret{}, fault.New("has a part that is none of id, url, header, env and src", secretForm)
		}
		if _, twice := f[k]; twice || v == "" {
			return job.Secret{}, fault.New(k+" is empty or given twice", secretForm)
		}
		f[k] = v
	}
	if f["id"] == "" || f["url"] == "" || f["header"] == "" || (f["env"] == "") == (f["src"] == "") {
		return job.Secret{}, fault.New("needs id, url, header, and one of env and src", secretForm)
	}
	value, err := o.secretValue(f["env"], f["src"])
	return job.Secret{Name: f["id"], URL: f["url"], Header: f["header"], Value: job.NewValue(value)}, err
}

// secretValue is that of quavon's own variable, or of a file.
func (o *runOptions) secretValue(variable, file string) (string, error) {
	if file == "" {
		value, ok := o.LookupEnv(variable)
		if !ok {
			return "", fault.New("the variable that env names isn't set", "export it, or name a file: src=FILE")
		}
		return trimNewline(value), nil
	}
	b, err := bounded.ReadFile(file, maxSecretFile)
	if err != nil {
		return "", fault.New("the file that src names can't be read, or is too long", "name a file that holds the value alone")
	}
	return trimNewline(string(b)), nil
}

func trimNewline(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }
