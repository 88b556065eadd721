package cgroup

import "testing"

func TestParseMount(t *testing.T) {
	v1, ok := parseMount("34 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset")
	if !ok || v1.Version != 1 || v1.Mount != "/sys/fs/cgroup/cpuset" || len(v1.Controllers) != 2 || v1.Controllers[1] != "cpuset" {
		t.Errorf("version 1: %+v, %v", v1, ok)
	}
	v2, ok := parseMount("35 31 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate")
	if !ok || v2.Version != 2 || v2.Mount != "/sys/fs/cgroup" {
		t.Errorf("version 2: %+v, %v", v2, ok)
	}
	for _, other := range []string{
		"31 30 0:28 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755",
		"40 30 0:31 / /mnt/elsewhere rw - cgroup2 cgroup2 rw",
		"",
	} {
		if h, ok := parseMount(other); ok {
			t.Errorf("%q taken for a hierarchy: %+v", other, h)
		}
	}
}

func TestChooseDropsTheUnifiedMountOfHybridMachines(t *testing.T) {
	hybrid := []Hierarchy{{Mount: "a", Version: 1}, {Mount: "unified", Version: 2}, {Mount: "b", Version: 1}}
	if got := choose(hybrid); len(got) != 2 || got[0].Mount != "a" || got[1].Mount != "b" {
		t.Errorf("hybrid: %+v", got)
	}
	if got := choose([]Hierarchy{{Mount: "only", Version: 2}}); len(got) != 1 {
		t.Errorf("version 2 alone: %+v", got)
	}
}
