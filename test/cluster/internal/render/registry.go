package render

import (
	"bytes"
	"fmt"
	"text/template"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

// registryDir is containerd's config_path: a folder for each registry that is told about. It is read at every pull.
const registryDir = plan.NodeConfigDir + "/certs.d"

var registryTemplate = template.Must(template.New("registry").Parse(`server = "https://{{.Host}}"

[host."https://{{.Host}}"]
  capabilities = ["pull", "resolve"]
  ca = "{{.CA}}"
`))

// RegistryFiles are the files, below a node's NodeConfigDir, that make containerd trust the authority (PEM) of a registry
// HOST[:PORT], and no other one for this registry.
func RegistryFiles(host, authority string) map[string][]byte {
	var hosts bytes.Buffer
	dir := registryDir + "/" + host
	if err := registryTemplate.Execute(&hosts, map[string]string{"Host": host, "CA": dir + "/ca.crt"}); err != nil {
		panic(fmt.Sprintf("render hosts.toml: %v", err)) // the template is a constant
	}
	below := dir[len(plan.NodeConfigDir)+1:]
	return map[string][]byte{below + "/hosts.toml": hosts.Bytes(), below + "/ca.crt": []byte(authority)}
}
