package mysqlcluster

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/porpoise-dev/porpoise/internal/apply"
	"github.com/porpoise-dev/porpoise/internal/desired"
	"github.com/porpoise-dev/porpoise/internal/naming"
)

// access keeps what clients and instances are reached by, and what they may do. Services follow the specification, and
// are therefore left as they are while it is invalid.
func access(ctx context.Context, s *scope) (Result, error) {
	name := s.cluster.Name
	children := []struct {
		want apply.Configuration
		live client.Object
	}{
		{desired.ServiceAccount(s.in), s.live.serviceAccounts[naming.ServiceAccount(name)]},
		{desired.PodDisruptionBudget(s.in), s.live.budgets[naming.PodDisruptionBudget(name)]},
		{desired.NetworkPolicy(s.in), s.live.policies[naming.NetworkPolicy(name)]},
		{desired.ServiceInstances(s.in), s.live.services[naming.ServiceInstances(name)]},
		{desired.ServiceReadWrite(s.in), s.live.services[naming.ServiceReadWrite(name)]},
		{desired.ServiceReadOnly(s.in), s.live.services[naming.ServiceReadOnly(name)]},
	}
	if s.invalid {
		children = children[:4]
	}
	for _, child := range children {
		if err := s.apply(ctx, child.want, child.live); err != nil {
			return Result{}, err
		}
	}
	return Continue(), nil
}
