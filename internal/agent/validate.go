package agent

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/porpoise-dev/porpoise/internal/clip"
	"github.com/porpoise-dev/porpoise/internal/mycnf"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Reasons of a Validation that is not OK.
const (
	// ReasonConfigRejected: mysqld, or the operator, refuses an option; the message names it.
	ReasonConfigRejected = "ConfigRejected"
	// ReasonImageWithoutMysqld: the image holds no mysqld that runs.
	ReasonImageWithoutMysqld = "ImageWithoutMysqld"
	// ReasonVersionMismatch: it is of another version than expected.
	ReasonVersionMismatch = "VersionMismatch"
)

// Validation is the outcome of Validate, as the check pod leaves it in its termination message.
type Validation struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Version of the image's mysqld, e.g. 9.7.4.
	Version string `json:"version,omitempty"`
}

var versionPattern = regexp.MustCompile(`\bVer (\d+\.\d+\.\d+)`)

// maxMessage keeps the whole below the 4096 bytes of a termination message.
const maxMessage = 2048

// Validate asks the image's mysqld whether it takes the option file as it would be rendered for an instance. It starts
// no server. An error means that it could not check; a refusal is in the Validation.
func Validate(ctx context.Context, cfg Config, expectVersion string) (Validation, error) {
	version, err := mysqldVersion(ctx, cfg.Mysqld)
	if err != nil {
		return Validation{Reason: ReasonImageWithoutMysqld, Message: clip.Text(err.Error(), maxMessage)}, nil
	}
	if expectVersion != "" && version != expectVersion && !strings.HasPrefix(version, expectVersion+".") {
		return Validation{Reason: ReasonVersionMismatch, Version: version,
			Message: fmt.Sprintf("the image holds mysqld %s, spec.version is %s", version, expectVersion)}, nil
	}
	scratch, err := os.MkdirTemp(cfg.Paths.Tmp, "validate-")
	if err != nil {
		return Validation{}, fmt.Errorf("make a scratch directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	params, err := scratchOptions(cfg, scratch)
	if err != nil {
		return Validation{Reason: ReasonConfigRejected, Version: version, Message: clip.Text(err.Error(), maxMessage)}, nil
	}
	file := filepath.Join(scratch, optionFileName)
	if err := os.WriteFile(file, []byte(mycnf.Render(params)), 0o600); err != nil {
		return Validation{}, fmt.Errorf("write the option file: %w", err)
	}
	arguments := []string{"--defaults-file=" + file, "--validate-config"}
	if os.Geteuid() == 0 {
		arguments = append(arguments, "--user=root")
	}
	out, err := exec.CommandContext(ctx, cfg.Mysqld, arguments...).CombinedOutput()
	if err == nil {
		return Validation{OK: true, Version: version}, nil
	}
	if _, exited := errors.AsType[*exec.ExitError](err); !exited || ctx.Err() != nil {
		return Validation{}, fmt.Errorf("run mysqld --validate-config: %w", err)
	}
	return Validation{Reason: ReasonConfigRejected, Version: version, Message: clip.Text(errorLines(out), maxMessage)}, nil
}

// scratchOptions are those of an instance, with paths and certificates that exist in the check pod.
func scratchOptions(cfg Config, scratch string) (mycnf.Instance, error) {
	cfg.Paths.Run, cfg.Paths.TLS = scratch, scratch
	dataDir := filepath.Join(scratch, "data")
	if err := os.Mkdir(dataDir, 0o700); err != nil {
		return mycnf.Instance{}, fmt.Errorf("make a scratch data directory: %w", err)
	}
	if err := scratchCertificates(cfg); err != nil {
		return mycnf.Instance{}, err
	}
	return cfg.optionFile(dataDir, "")
}

// scratchCertificates makes a certificate that nobody trusts, since the check pod mounts none.
func scratchCertificates(cfg Config) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a scratch key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "scratch"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make a scratch certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a scratch key: %w", err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{naming.FileCA: cert, naming.FileTLSCert: cert,
		naming.FileTLSKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(cfg.tlsFile(name), text, 0o600); err != nil {
			return fmt.Errorf("write a scratch certificate: %w", err)
		}
	}
	return nil
}

// mysqldVersion returns the version that the binary says it has.
func mysqldVersion(ctx context.Context, mysqld string) (string, error) {
	out, err := exec.CommandContext(ctx, mysqld, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s --version: %w: %s", mysqld, err, bytes.TrimSpace(out))
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("run %s --version: no version in %q", mysqld, bytes.TrimSpace(out))
	}
	return string(match[1]), nil
}

// errorLines returns the messages of the log's errors, or all of it if there are none.
func errorLines(out []byte) string {
	var found []string
	for text := range strings.Lines(string(out)) {
		if level, _, _, message := parseLogLine(strings.TrimSpace(text)); level == "ERROR" && message != "Aborting" {
			found = append(found, strings.TrimSpace(message))
		}
	}
	if len(found) == 0 {
		return strings.TrimSpace(string(out))
	}
	return strings.Join(found, "; ")
}
