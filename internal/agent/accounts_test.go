package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeAccounts(t *testing.T, change map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"app/username": "app", "app/password": "p1", "app/database": "app", "admin/username": "admin", "admin/password": "p2"}
	for name, text := range change {
		files[name] = text
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "-" {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadAccounts(t *testing.T) {
	if f, err := readAccounts(writeAccounts(t, nil)); err != nil || f.app.User != "app" || f.admin.Password != "p2" {
		t.Fatalf("%v", err)
	}
	const secret = "s3cret\n"
	for name, change := range map[string]map[string]string{
		"app/password":   {"app/password": secret},
		"admin/password": {"admin/password": "-"},
		"app/database":   {"app/database": "MySQL"},
		"app/username":   {"app/username": "Porpoise"},
		"admin/username": {"admin/username": "mysql.sys"},
		"must differ":    {"admin/username": "app"},
		"1 to 32":        {"app/username": strings.Repeat("u", 33)},
	} {
		_, err := readAccounts(writeAccounts(t, change))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: error %v should name %q", change, err, name)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error holds the password: %v", err)
		}
	}
}

func TestAccountsHash(t *testing.T) {
	read := func(change map[string]string) accountFiles {
		f, err := readAccounts(writeAccounts(t, change))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	same, other := read(nil), read(map[string]string{"app/password": "p1p2", "admin/password": "x"})
	if same.hash("salt") != read(nil).hash("salt") || same.hash("salt") == same.hash("pepper") || same.hash("salt") == other.hash("salt") {
		t.Error("the hash does not tell contents and salts apart")
	}
}
