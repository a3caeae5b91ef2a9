package commands

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/quavon/quavon/runner/fault"
	"github.com/quavon/quavon/runner/queue"
	"github.com/quavon/quavon/runner/queue/conn"
	"github.com/quavon/quavon/runner/queue/envelope"
)

// Names of the settings that say which queue.
const (
	envValkeyURL  = "VALKEY_URL"
	envSigningKey = "QUAVON_SANDBOX_SIGNING_KEY"
	envQueue      = "QUAVON_SANDBOX_QUEUE"
)

// queueSettings are those of every verb that uses the queue.
func queueSettings() []*setting {
	return []*setting{
		{name: envValkeyURL, help: "Valkey's URL", secret: true},
		{name: envValkeyURL + "_FILE", flag: "valkey-url-file", help: "file that holds Valkey's URL"},
		{name: "VALKEY_HOST", flag: "valkey-host", help: "Valkey's host or the path of its socket, instead of a URL"},
		{name: "VALKEY_PORT", flag: "valkey-port", def: "6379", help: "Valkey's port"},
		{name: "VALKEY_USERNAME", flag: "valkey-username", help: "user at Valkey"},
		{name: "VALKEY_PASSWORD", help: "password at Valkey", secret: true},
		{name: "VALKEY_PASSWORD_FILE", flag: "valkey-password-file", help: "file that holds the password at Valkey"},
		{name: "VALKEY_DB", flag: "valkey-db", def: "0", help: "number of the database"},
		{name: "VALKEY_TLS", flag: "valkey-tls", def: "false", help: "encrypt, and check Valkey's certificate: true or false"},
		{name: "VALKEY_TLS_CA_FILE", flag: "valkey-tls-ca-file", help: "certificates to trust instead of the system's"},
		{name: "VALKEY_TLS_CERT_FILE", flag: "valkey-tls-cert-file", help: "our certificate"},
		{name: "VALKEY_TLS_KEY_FILE", flag: "valkey-tls-key-file", help: "our certificate's key"},
		{name: "VALKEY_TLS_SERVER_NAME", flag: "valkey-tls-server-name", help: "name in Valkey's certificate"},
		{name: envSigningKey, help: "signing key, base64 of 32 bytes", secret: true},
		{name: envSigningKey + "_FILE", flag: "signing-key-file", help: "file that holds the signing keys, one a line"},
		{name: envQueue, flag: "queue", def: "default", help: "name of the queue"},
	}
}

// valkey says where Valkey is: by URL, or by separate settings, which complete one.
func (s *settings) valkey() (c conn.Settings, err error) {
	url, err := s.secretOf(envValkeyURL)
	if err != nil {
		return c, err
	}
	switch {
	case url != "":
		if c, err = conn.ParseURL(url); err != nil {
			return c, err
		}
	case path.IsAbs(s.get("VALKEY_HOST")):
		c.Addresses = []string{s.get("VALKEY_HOST")}
	case s.get("VALKEY_HOST") != "":
		if _, err := strconv.ParseUint(s.get("VALKEY_PORT"), 10, 16); err != nil {
			return c, fault.New(fmt.Sprintf("VALKEY_PORT %.20q is no port", s.get("VALKEY_PORT")), "write a number, such as 6379")
		}
		c.Addresses = []string{net.JoinHostPort(strings.Trim(s.get("VALKEY_HOST"), "[]"), s.get("VALKEY_PORT"))}
	default:
		return c, fault.New("it isn't said where Valkey is", "set "+envValkeyURL+"_FILE to a file with its URL, or VALKEY_HOST")
	}
	return c, s.completeValkey(&c)
}

func (s *settings) completeValkey(c *conn.Settings) error {
	if user := s.get("VALKEY_USERNAME"); user != "" {
		c.Username = user
	}
	password, err := s.secretOf("VALKEY_PASSWORD")
	if err != nil {
		return err
	}
	if password != "" {
		c.Password = password
	}
	if x := s.find("VALKEY_DB"); x.from != "default" {
		if c.DB, err = strconv.Atoi(x.value); err != nil {
			return fault.New("VALKEY_DB is no number", "write the database's number, such as 0")
		}
	}
	on, err := strconv.ParseBool(s.get("VALKEY_TLS"))
	if err != nil {
		return fault.New("VALKEY_TLS is neither true nor false", "write one of them")
	}
	c.TLS = c.TLS || on
	c.CAFile, c.CertFile, c.KeyFile = s.get("VALKEY_TLS_CA_FILE"), s.get("VALKEY_TLS_CERT_FILE"), s.get("VALKEY_TLS_KEY_FILE")
	c.ServerName = s.get("VALKEY_TLS_SERVER_NAME")
	return nil
}

// keyring reads the signing keys.
func (s *settings) keyring() (*envelope.Keyring, error) {
	text, err := s.secretOf(envSigningKey)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, fault.New("there is no signing key", "set "+envSigningKey+"_FILE to the file of sandbox_signing_key")
	}
	return envelope.ParseKeyring([]byte(text))
}

// queueOptions say which queue.
func (s *settings) queueOptions() (o queue.Options, err error) {
	if o.Conn, err = s.valkey(); err != nil {
		return o, err
	}
	o.Keys, err = s.keyring()
	o.Name = s.get(envQueue)
	return o, err
}
