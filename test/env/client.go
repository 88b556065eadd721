package env

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/naming"
	"github.com/porpoise-dev/porpoise/internal/release/image"
)

// ClientPod is a pod with the mysql program, from which SQL takes the way of an application.
type ClientPod struct {
	env                *Env
	namespace, cluster string
	// Name of the pod.
	Name string
}

// Folders in the client pod.
const (
	clientAccount = "/etc/mysql-account"
	clientCA      = "/etc/mysql-ca"
)

// clientScript connects with the mounted account: the password is in no argument list. $1 is the host.
const clientScript = `MYSQL_PWD="$(cat ` + clientAccount + `/password)" exec mysql --no-defaults --batch --skip-column-names --connect-timeout=5 \
  --host="$1" --user="$(cat ` + clientAccount + `/username)" --database="$(cat ` + clientAccount + `/database)" \
  --ssl-mode=VERIFY_IDENTITY --ssl-ca=` + clientCA + `/` + naming.FileCA

// StartClient makes a pod CLUSTER-client and waits until it runs. It mounts the application's account and the authority
// that signed the servers' certificates, as an application would.
func (e *Env) StartClient(ctx context.Context, namespace, cluster string) (*ClientPod, error) {
	reference, err := e.Image(image.NameMySQL)
	if err != nil {
		return nil, err
	}
	pod := clientPod(namespace, cluster, reference)
	if err := e.Client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create pod %s/%s: %w", namespace, pod.Name, err)
	}
	err = e.WaitFor(ctx, "Client: wait for a pod with mysql in it", 2*time.Minute, func(ctx context.Context) (bool, string, error) {
		seen := &corev1.Pod{}
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(pod), seen); err != nil {
			return false, "", err
		}
		state := string(seen.Status.Phase)
		for _, s := range seen.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil {
				state += ", " + w.Reason + " " + w.Message
			}
		}
		return seen.Status.Phase == corev1.PodRunning, state, nil
	})
	if err != nil {
		return nil, err
	}
	return &ClientPod{env: e, namespace: namespace, cluster: cluster, Name: pod.Name}, nil
}

func clientPod(namespace, cluster, reference string) *corev1.Pod {
	secret := func(name, secret string, items ...corev1.KeyToPath) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, Items: items}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: cluster + "-client",
			Labels: map[string]string{naming.LabelName: "mysql-client", LabelCreatedBy: fieldOwner},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: new(int64(65532)), RunAsNonRoot: new(true), FSGroup: new(int64(65532)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{
				secret("account", naming.SecretApp(cluster)),
				// Only the authority: the rest of this Secret is the manager's.
				secret("ca", naming.SecretManagerTLS(cluster), corev1.KeyToPath{Key: naming.FileCA, Path: naming.FileCA}),
			},
			Containers: []corev1.Container{{
				Name: "mysql", Image: reference, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "infinity"},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "account", MountPath: clientAccount, ReadOnly: true},
					{Name: "ca", MountPath: clientCA, ReadOnly: true},
				},
			}},
		},
	}
}

// ErrNotConnected means: the server was not reached, so no statement has run and all may be sent again.
var ErrNotConnected = errors.New("not connected")

// connectErrors are the client's error numbers that can only come before the first statement: the host's name was not
// resolved, or nothing listened there.
var connectErrors = []string{"ERROR 2003 ", "ERROR 2005 "}

// SQL runs statements at a host, e.g. the name of a Service, and returns what mysql prints: rows with tabs, no header.
// Where nothing answers the error is ErrNotConnected.
func (c *ClientPod) SQL(ctx context.Context, host, statements string) (string, error) {
	out, err := c.env.Exec(ctx, ExecOptions{
		Namespace: c.namespace, Pod: c.Name,
		Command: []string{"bash", "-c", clientScript, "mysql", host}, Stdin: strings.NewReader(statements),
	})
	if err != nil && out == "" && slices.ContainsFunc(connectErrors, func(number string) bool { return strings.Contains(err.Error(), number) }) {
		return "", fmt.Errorf("SQL at %s: %w: %w", host, ErrNotConnected, err)
	}
	if err != nil {
		return "", fmt.Errorf("SQL at %s: %w", host, err)
	}
	return strings.TrimSpace(out), nil
}
