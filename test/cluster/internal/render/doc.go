// Package render turns a plan into command lines, configuration files and manifests. It is pure: the same plan gives the same text.
package render
