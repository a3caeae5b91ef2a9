package commands

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quavon/quavon/installer/dotenv"
	"github.com/quavon/quavon/runner/bounded"
	"github.com/quavon/quavon/runner/fault"
)

// Files of an installation, beside its .env.
var installed = map[string]string{
	"VALKEY_HOST":           "run/valkey/valkey.sock",
	"VALKEY_PASSWORD_FILE":  "secrets/valkey_sandbox_password",
	envSigningKey + "_FILE": "secrets/sandbox_signing_key",
	envEgressURL + "_FILE":  "secrets/valkey_egress_url",
}

// fromInstallation completes the settings by the files of the installation whose .env is
// judged, when nothing else says where Valkey is.
func (o *doctorOptions) fromInstallation() {
	env, _ := o.envPath()
	dir := filepath.Dir(env)
	if o.settings.named("VALKEY_HOST", envValkeyURL, envValkeyURL+"_FILE") {
		return
	}
	if _, err := os.Stat(filepath.Join(dir, installed["VALKEY_HOST"])); err != nil {
		return
	}
	for name, file := range installed {
		x := o.settings.find(name)
		if x == nil || x.value != "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
			x.value, x.from = filepath.Join(dir, file), "installation"
		}
	}
	if x := o.settings.find("VALKEY_USERNAME"); x.value == "" {
		x.value, x.from = "sandbox", "installation"
	}
	values, err := envValues(env)
	if err != nil {
		return // a check of the host says what is wrong with it
	}
	if x := o.settings.find(envQueue); x.from == "default" && values(envQueue) != "" {
		x.value, x.from = values(envQueue), "installation"
	}
}

// maxEnv bounds a .env.
const maxEnv = 1 << 20

// envValues are the settings in an installation's .env, "" for those that it hasn't.
func envValues(path string) (func(key string) string, error) {
	raw, err := bounded.ReadFile(path, maxEnv)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(err, "read the settings", "make "+path+" readable")
	}
	f, err := dotenv.Parse(raw)
	if err != nil {
		return nil, fault.Wrap(err, path, fault.Hint(err))
	}
	return func(key string) string {
		value, _ := f.Get(key)
		return value
	}, nil
}
