package mysql

import "strings"

// Literal quotes a string for a statement. The sessions of this package have an empty sql_mode, so a backslash escapes.
func Literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\x00", `\0`, "\n", `\n`, "\r", `\r`, "\x1a", `\Z`).Replace(s) + "'"
}

// Identifier quotes a name.
func Identifier(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// databasePattern quotes a database's name for GRANT, where _ and % are wildcards.
func databasePattern(s string) string {
	return Identifier(strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`).Replace(s))
}
