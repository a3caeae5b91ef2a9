package commands

import (
	"os"
	"path/filepath"
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
}
