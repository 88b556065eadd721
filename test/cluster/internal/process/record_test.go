package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestParseStartTimeSkipsStrangeProgramNames(t *testing.T) {
	stat := "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21"
	got, err := parseStartTime([]byte(stat))
	if err != nil || got != 777 {
		t.Fatalf("parseStartTime = %d, %v; want 777", got, err)
	}
	for _, bad := range []string{"", "42 no name", "42 (x) S 1 2", "42 (x) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777"} {
		if _, err := parseStartTime([]byte(bad)); err == nil {
			t.Errorf("parseStartTime(%q) succeeded", bad)
		}
	}
}

func TestKillEndsExactlyTheRecordedProcess(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	record, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}

	stranger := record
	stranger.StartTime++ // the same pid, but another life
	if stranger.Alive() {
		t.Error("a record with another start time counts as alive")
	}
	if err := stranger.Kill(time.Second); err != nil {
		t.Errorf("killing a process that is gone: %v", err)
	}
	if !record.Alive() {
		t.Fatal("killing the stranger's record killed the process")
	}

	if err := record.Kill(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process ended by itself, not by Kill")
	}
	if record.Alive() {
		t.Error("alive after Kill")
	}
}

func TestTerminateFallsBackToKill(t *testing.T) {
	cmd := exec.Command("sh", "-c", `trap "" TERM; echo ready; while :; do read x; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	record, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Terminate(200 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if record.Alive() {
		t.Error("alive after Terminate")
	}
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.pid")
	if r, err := Load(path); err != nil || r.Alive() {
		t.Fatalf("missing file: %v, %v; want the zero record", r, err)
	}
	want, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil || got != want || !got.Alive() {
		t.Fatalf("Load = %v, %v; want %v, alive", got, err, want)
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("a damaged record was read without an error")
	}
}
