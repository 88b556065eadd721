package main

import (
	"strings"
	"testing"

	porpoisev1 "github.com/porpoise-dev/porpoise/api/v1"
)

func TestAnswersAreReadFromTheLastLine(t *testing.T) {
	out := "noise\ndemo-0-0\t1500\n"
	if !hasRows(out, 1500) || hasRows(out, 15) || hasRows("", 0) {
		t.Error("hasRows misreads")
	}
	if got := answered(out); got != "demo-0-0 answers: 1500 rows" {
		t.Errorf("got %q", got)
	}
	if got := answered(""); got != "no answer yet" {
		t.Errorf("got %q", got)
	}
}

func TestEachRowIsACommitOfItsOwn(t *testing.T) {
	if got := strings.Count(inserts(7), ";\n"); got != 7 {
		t.Errorf("%d statements, want 7", got)
	}
}

func TestMembership(t *testing.T) {
	q := &porpoisev1.Quorum{Members: []porpoisev1.QuorumMember{{Name: "demo-2"}}}
	if !isMember(q, "demo-2") || isMember(q, "demo-1") {
		t.Error("isMember misreads")
	}
}

func TestTheHelpExplainsBothCommands(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	root := rootCommand()
	out := &strings.Builder{}
	root.SetOut(out)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"down", "--nodes", "--namespace", "REGISTRY"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out)
		}
	}
}
