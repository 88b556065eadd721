package cluster

import "testing"

func TestParseResources(t *testing.T) {
	r, err := ParseResources([]string{"4Gi", "3=512Mi"}, []string{"2=500m", "2"})
	if err != nil {
		t.Fatal(err)
	}
	memory, cpu, err := r.reserve(3, 8<<30, 4000)
	if err != nil || memory != "8053063680" || cpu != "2000m" {
		t.Errorf("node 3 reserves %q, %q, %v", memory, cpu, err)
	}
	memory, cpu, err = r.reserve(2, 8<<30, 4000)
	if err != nil || memory != "4294967296" || cpu != "3500m" {
		t.Errorf("node 2 reserves %q, %q, %v", memory, cpu, err)
	}
	if _, _, err := r.reserve(1, 1<<30, 4000); err == nil {
		t.Error("a node with more memory than the machine was accepted")
	}
	if memory, cpu, err := (Resources{}).reserve(1, 1<<30, 1000); memory != "" || cpu != "" || err != nil {
		t.Errorf("without options: %q, %q, %v; want nothing reserved", memory, cpu, err)
	}
}

func TestParseResourcesRefusesNonsense(t *testing.T) {
	for _, bad := range []string{"", "4", "4GB", "-1Gi", "0Gi", "x=4Gi", "0=4Gi", "51=4Gi", "9999999999Gi"} {
		if _, err := ParseResources([]string{bad}, nil); err == nil {
			t.Errorf("--node-memory %q accepted", bad)
		}
	}
	for _, bad := range []string{"", "0", "-1", "1.5", "x"} {
		if _, err := ParseResources(nil, []string{bad}); err == nil {
			t.Errorf("--node-cpu %q accepted", bad)
		}
	}
}
