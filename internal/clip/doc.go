// Package clip cuts texts that came from outside to what a status, a condition or an Event can bear. What it returns is
// always valid UTF-8: JSON makes U+FFFD of anything else, so a status that holds it is read back as another one than was
// written, and whoever compares the two writes for ever.
//
//	clip.Text("größer", 6)   "gr…"
package clip
