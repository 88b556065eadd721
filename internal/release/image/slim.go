package image

import (
	"path"
	"slices"
	"strings"
)

// slimRecipe names the set of rules below. It is part of the cache's key: change it with the rules.
const slimRecipe = "slim-1"

// unwantedTrees are left out of the MySQL image with everything below them: package management,
// documentation, perl (used by packages' scripts only) and what apt and mmdebstrap leave behind,
// which would also make two builds differ.
var unwantedTrees = []string{
	"boot", "dev", "home", "media", "mnt", "opt", "proc", "srv", "sys",
	"etc/apt", "etc/cron.d", "etc/cron.daily", "etc/init.d", "etc/kernel", "etc/logrotate.d", "etc/systemd",
	"etc/hostname", "etc/resolv.conf", "etc/machine-id",
	"usr/games", "usr/include", "usr/lib/apt", "usr/lib/systemd", "usr/share/bash-completion",
	"usr/share/bug", "usr/share/doc", "usr/share/doc-base", "usr/share/fonts", "usr/share/icons", "usr/share/info", "usr/share/lintian",
	"usr/share/locale", "usr/share/man", "usr/share/perl", "usr/share/perl5", "usr/share/pixmaps", "usr/share/polkit-1",
	"usr/lib/mysql-test", "usr/share/mysql-test", "usr/lib/mysql/plugin/libpluginmecab.so",
	"var/backups", "var/cache", "var/lib/apt", "var/log", "var/tmp", "tmp", "root",
	"var/lib/dpkg/info",
}

// unwantedPrograms are programs of 7 MB and more each which nobody calls in a server's container.
var unwantedPrograms = []string{
	"apt", "apt-cache", "apt-cdrom", "apt-config", "apt-get", "apt-mark", "ibd2sdi", "innochecksum", "localedef", "myisam_ftdump",
	"myisamchk", "myisamlog", "myisampack", "mysql_config_editor", "mysql_migrate_keyring", "mysql_secure_installation",
	"mysqlanalyze", "mysqlcheck", "mysqlimport", "mysqloptimize", "mysqlrepair", "mysqlshow", "mysqlslap", "perl", "sqv",
}

// unwantedLibraries are the libraries of the programs above.
var unwantedLibraries = []string{"libapt-pkg.so", "libapt-private.so", "libperl.so", "libmecab.so"}

// perlTrees are perl's folders below the folder of an architecture's libraries.
var perlTrees = []string{"perl", "perl-base", "perl5"}

// keptDirs stay as empty folders although what is below them goes: runtimes mount over them, and
// programs expect a writable /tmp.
var keptDirs = map[string]bool{
	"dev": true, "proc": true, "sys": true, "tmp": true, "root": true, "home": true, "var/log": true, "var/tmp": true, "var/cache": true,
}

// wanted decides whether a path of the root file system (without leading slash) goes into the image.
func wanted(name string) bool {
	for _, tree := range unwantedTrees {
		if name == tree {
			return keptDirs[name]
		}
		if strings.HasPrefix(name, tree+"/") {
			return false
		}
	}
	dir, base := path.Split(name)
	switch {
	case dir == "usr/bin/":
		for _, program := range unwantedPrograms {
			if base == program || strings.HasPrefix(base, program+"5.") {
				return false
			}
		}
	case strings.HasPrefix(dir, "usr/lib/") && strings.Contains(dir, "-linux-gnu/"):
		return wantedLibrary(name)
	case strings.HasPrefix(dir, "usr/share/mysql/"):
		// Error messages in languages other than English.
		return base != "errmsg.sys" || dir == "usr/share/mysql/english/"
	}
	return true
}

// wantedLibrary decides about usr/lib/ARCH-linux-gnu/…, folders and files.
func wantedLibrary(name string) bool {
	_, below, _ := strings.Cut(name, "-linux-gnu/")
	top, _, _ := strings.Cut(below, "/")
	if slices.Contains(perlTrees, top) {
		return false
	}
	return !slices.ContainsFunc(unwantedLibraries, func(library string) bool { return strings.HasPrefix(below, library) })
}
