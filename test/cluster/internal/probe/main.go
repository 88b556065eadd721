// Command probe is the only program in the image of the cluster's own test. It serves HTTP, and its subcommands, called through
// `kubectl exec`, show what a pod sees.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch {
	case len(args) == 1 && args[0] == "serve":
		return serve(ctx)
	case len(args) == 2 && args[0] == "lookup":
		addresses, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, args[1])
		fmt.Println(addresses)
		return err
	case len(args) == 2 && args[0] == "get":
		return get(ctx, args[1])
	case len(args) == 3 && args[0] == "write":
		return write(args[1], args[2])
	case len(args) == 2 && args[0] == "read":
		data, err := os.ReadFile(args[1])
		fmt.Print(string(data))
		return err
	}
	return fmt.Errorf("usage: serve | lookup NAME | get URL | write FILE TEXT | read FILE, not %q", args)
}

func serve(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, host) })}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println("serving as", host)
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

func get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

// write also prints who owns the file: what fsGroup is about.
func write(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	fmt.Printf("uid %d gid %d\n", owner.Uid, owner.Gid)
	return nil
}
