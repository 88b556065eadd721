package desired

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/porpoise-dev/porpoise/internal/naming"
)

// Annotations of a revision. A revision is made when its check has a verdict, which is never asked for again while what
// the check depends on (Check) stays the same.
const (
	annotationRevision = "porpoise.dev/revision"
	annotationCheck    = "porpoise.dev/check"
	annotationRejected = "porpoise.dev/rejected"
	annotationMessage  = "porpoise.dev/rejected-message"
	annotationServer   = "porpoise.dev/server-version"
	annotationResolved = "porpoise.dev/resolved-from"
)

// Verdict is what the check of a revision found.
type Verdict struct {
	// Check is the hash of what was checked.
	Check string
	// Rejected is the reason, in one word, for which the revision must not reach an instance; empty: it may.
	Rejected string
	// Message is mysqld's own, for people.
	Message string
	// ServerVersion is what the image's mysqld calls itself.
	ServerVersion string
	// ResolvedFrom is the version that the image map resolved; empty when the image was given.
	ResolvedFrom string
}

// Revision is the anchor of a Shape: a ControllerRevision, which no StatefulSet adopts, since the cluster owns it and its
// labels are not those of instances. number orders revisions by when they were last asked for.
func Revision(in Input, shape Shape, verdict Verdict, number int64) *appsv1ac.ControllerRevisionApplyConfiguration {
	cluster := in.Cluster
	labels := naming.ClusterLabels(cluster.Name)
	labels[naming.LabelComponent] = ComponentRevision
	annotations := map[string]string{
		annotationRevision: shape.Revision(),
		annotationCheck:    verdict.Check,
	}
	for key, value := range map[string]string{
		annotationRejected: verdict.Rejected,
		annotationMessage:  verdict.Message,
		annotationServer:   verdict.ServerVersion,
		annotationResolved: verdict.ResolvedFrom,
	} {
		if value != "" {
			annotations[key] = value
		}
	}
	return appsv1ac.ControllerRevision(naming.Revision(cluster.Name, shape.Revision()), cluster.Namespace).
		WithLabels(labels).
		WithAnnotations(annotations).
		WithOwnerReferences(OwnerReference(cluster)).
		WithRevision(number).
		WithData(runtime.RawExtension{Raw: shape.encode()})
}

// StoredRevision is a Revision read back.
type StoredRevision struct {
	Name    string
	Hash    string
	Number  int64
	Shape   Shape
	Verdict Verdict
}

// ReadRevision reads a ControllerRevision made by Revision. It fails when its data is not the Shape its name promises:
// an instance is never built from an anchor that somebody changed.
func ReadRevision(revision *appsv1.ControllerRevision) (StoredRevision, error) {
	stored := StoredRevision{
		Name:   revision.Name,
		Hash:   revision.Annotations[annotationRevision],
		Number: revision.Revision,
		Verdict: Verdict{
			Check:         revision.Annotations[annotationCheck],
			Rejected:      revision.Annotations[annotationRejected],
			Message:       revision.Annotations[annotationMessage],
			ServerVersion: revision.Annotations[annotationServer],
			ResolvedFrom:  revision.Annotations[annotationResolved],
		},
	}
	if err := json.Unmarshal(revision.Data.Raw, &stored.Shape); err != nil {
		return StoredRevision{}, fmt.Errorf("read ControllerRevision %s: %w", revision.Name, err)
	}
	if got := stored.Shape.Revision(); got != stored.Hash {
		return StoredRevision{}, fmt.Errorf("read ControllerRevision %s: its content hashes to %s instead of %q", revision.Name, got, stored.Hash)
	}
	return stored, nil
}
