// Package figure holds what benchmarks measured: rows of values with their command and machine. It computes median, least
// and greatest, prints tables for people, keeps figures as JSON, and writes them into a marked section of a document.
//
//	f := figure.Figure{ID: "create", Title: "Apply to Ready", Command: "go run ./test/bench create", Machine: m}
//	f.Add("Ready", "s", 14.2, 13.9, 15.0)
//	f.WriteText(os.Stdout)          // Ready   14.200 s   13.900   15.000   3
//	f.Save("bin/bench")             // bin/bench/create.json
//	figure.UpdateDocument("docs/benchmarks.md", "bin/bench")
package figure
