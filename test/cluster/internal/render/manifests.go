package render

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

// CoreDNSVersion is the version of the module built (kube/go.mod) and the tag of the image.
const CoreDNSVersion = "v1.15.0"

// CoreDNSImage is the image of cluster DNS.
const CoreDNSImage = "porpoise.local/coredns:" + CoreDNSVersion

//go:embed manifests/system.yaml
var systemManifest string

var systemTemplate = template.Must(template.New("system").Parse(systemManifest))

// SystemManifest is everything that a bare API server lacks: DNS, the default StorageClass and their rights.
func SystemManifest(c plan.Cluster) []byte {
	var out bytes.Buffer
	err := systemTemplate.Execute(&out, map[string]string{
		"DNSAddress": c.DNSService().String(), "DNSImage": CoreDNSImage,
		"ProvisionerUser": "system:" + Provisioner,
	})
	if err != nil {
		panic(fmt.Sprintf("render system manifest: %v", err)) // the template is embedded
	}
	return out.Bytes()
}
