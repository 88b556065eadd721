package mysql

import "testing"

// TestParseOwned reads gtid_owned as mysqld 9.7.4 prints it.
func TestParseOwned(t *testing.T) {
	const a, b, c = "2b6e1faf-ed25-11f1-adb5-02fc00000001", "3e11fa47-71ca-11e1-9e33-c80aa9429562", "00000000-0000-0000-0000-000000000009"
	for text, want := range map[string]string{
		"":          "",
		a + ":3#96": a + ":3",
		a + ":3#96:2#97" + a + ":foo:1#95" + b + ":bar:7#94": a + ":2-3:foo:1," + b + ":bar:7",
		a + ":3#1" + c + ":1#12":                             c + ":1," + a + ":3",
		a + ":3#96,\n" + b + ":7#94":                         a + ":3," + b + ":7",
	} {
		if got, err := parseOwned(text); err != nil || got.String() != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"x", a, a + ":", a + ":0#1", "#3"} {
		if got, err := parseOwned(text); err == nil {
			t.Errorf("%q is taken as %q", text, got)
		}
	}
}

// FuzzParseOwned: whatever mysqld prints, nothing panics.
func FuzzParseOwned(f *testing.F) {
	f.Add("2b6e1faf-ed25-11f1-adb5-02fc00000001:3#96:2#972b6e1faf-ed25-11f1-adb5-02fc00000001:foo:1#95")
	f.Fuzz(func(t *testing.T, text string) {
		if set, err := parseOwned(text); err == nil && text != "" && set.IsEmpty() {
			t.Fatalf("%q is taken as nothing", text)
		}
	})
}
