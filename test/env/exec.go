package env

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// ExecOptions name a program to run in a container.
type ExecOptions struct {
	Namespace, Pod string
	// Container; empty: the pod's only or first one.
	Container string
	Command   []string
	// Stdin; nil: none.
	Stdin io.Reader
}

// Exec runs a program in a pod and returns its standard output. The error of one that fails quotes its standard error.
func (e *Env) Exec(ctx context.Context, o ExecOptions) (string, error) {
	clientset, err := kubernetes.NewForConfig(e.Config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	request := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(o.Namespace).Name(o.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: o.Container, Command: o.Command, Stdin: o.Stdin != nil, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	viaWebSocket, err := remotecommand.NewWebSocketExecutor(e.Config, "GET", request.URL().String())
	if err != nil {
		return "", fmt.Errorf("prepare exec in pod %s: %w", o.Pod, err)
	}
	viaSPDY, err := remotecommand.NewSPDYExecutor(e.Config, "POST", request.URL())
	if err != nil {
		return "", fmt.Errorf("prepare exec in pod %s: %w", o.Pod, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(viaWebSocket, viaSPDY, httpstream.IsUpgradeFailure)
	if err != nil {
		return "", fmt.Errorf("prepare exec in pod %s: %w", o.Pod, err)
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: o.Stdin, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return stdout.String(), fmt.Errorf("run %s in pod %s/%s: %w: %s", o.Command[0], o.Namespace, o.Pod, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
