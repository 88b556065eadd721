// Package network makes the cables of a cluster: one bridge on the machine, one veth pair for each node, and the routes that make
// pods and Services reachable from every node and from the machine itself. No iptables rule is made on the machine.
package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/porpoise-dev/porpoise/test/cluster/internal/plan"
)

const nodeLink = "eth0"

// InUse lists the machine's routed ranges, to choose a free index.
func InUse() ([]netip.Prefix, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var used []netip.Prefix
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		if p, err := netip.ParsePrefix(r.Dst.String()); err == nil {
			used = append(used, p)
		}
	}
	return used, nil
}

// EnsureBridge makes the bridge and gives the machine its address on it.
func EnsureBridge(c plan.Cluster) error {
	link, err := netlink.LinkByName(c.Bridge())
	if isNotFound(err) {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: c.Bridge()}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return fmt.Errorf("create bridge %s: %w", c.Bridge(), err)
		}
		link, err = netlink.LinkByName(c.Bridge())
	}
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", c.Bridge(), err)
	}
	address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(c.HostAddress(), c.NodeNetwork().Bits()))}
	if err := netlink.AddrReplace(link, address); err != nil {
		return fmt.Errorf("give %s to bridge %s: %w", address, c.Bridge(), err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("switch on bridge %s: %w", c.Bridge(), err)
	}
	// The gateway's route exists before the gateway: the range must read as taken as soon as the cluster owns it.
	return replaceRoute(nil, link, c.ServiceNetwork(), c.Gateway().Address())
}

// RemoveBridge removes the bridge and every cable that a dead node may have left on the machine.
func RemoveBridge(c plan.Cluster) error {
	for number := range plan.MaxNodes + 1 {
		if err := removeLink(c.Node(number).HostLink()); err != nil {
			return err
		}
	}
	return removeLink(c.Bridge())
}

func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}

// Connect plugs the network namespace of process pid into the bridge as node n.
func Connect(n plan.Node, pid int) error {
	if err := removeLink(n.HostLink()); err != nil { // of an earlier life of this node
		return err
	}
	bridge, err := netlink.LinkByName(n.Cluster.Bridge())
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", n.Cluster.Bridge(), err)
	}
	veth := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: n.HostLink(), MasterIndex: bridge.Attrs().Index},
		PeerName:      nodeLink,
		PeerNamespace: netlink.NsPid(pid),
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("create cable %s of %s: %w", n.HostLink(), n.Name(), err)
	}
	if err := SetCable(n, true); err != nil {
		return err
	}
	if err := configureInside(n, pid); err != nil {
		return fmt.Errorf("configure network of %s: %w", n.Name(), err)
	}
	if n.IsGateway() {
		return nil
	}
	return replaceRoute(nil, bridge, n.PodNetwork(), n.Address())
}

// SetCable plugs the node's cable in or pulls it out. Pulled out is a real partition: nothing of the node reaches anything.
func SetCable(n plan.Node, plugged bool) error {
	link, err := netlink.LinkByName(n.HostLink())
	if err != nil {
		return fmt.Errorf("find cable %s of %s: %w", n.HostLink(), n.Name(), err)
	}
	set, verb := netlink.LinkSetDown, "pull out"
	if plugged {
		set, verb = netlink.LinkSetUp, "plug in"
	}
	if err := set(link); err != nil {
		return fmt.Errorf("%s cable %s of %s: %w", verb, n.HostLink(), n.Name(), err)
	}
	return nil
}

// IsPlugged tells whether the node's cable is plugged in.
func IsPlugged(n plan.Node) bool {
	link, err := netlink.LinkByName(n.HostLink())
	return err == nil && link.Attrs().Flags&net.FlagUp != 0
}

func configureInside(n plan.Node, pid int) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("open network namespace of process %d: %w", pid, err)
	}
	defer ns.Close()
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("enter network namespace of process %d: %w", pid, err)
	}
	defer inside.Close()
	for _, name := range []string{"lo", nodeLink} {
		link, err := inside.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if err := inside.LinkSetUp(link); err != nil {
			return fmt.Errorf("switch on %s: %w", name, err)
		}
	}
	link, err := inside.LinkByName(nodeLink)
	if err != nil {
		return fmt.Errorf("find %s: %w", nodeLink, err)
	}
	address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(n.Address(), n.Cluster.NodeNetwork().Bits()))}
	if err := inside.AddrReplace(link, address); err != nil {
		return fmt.Errorf("give %s to %s: %w", address, nodeLink, err)
	}
	return routesInside(n, inside, link)
}

// routesInside includes routes to every node the cluster may ever have, so that adding one later changes no other node.
func routesInside(n plan.Node, inside *netlink.Handle, link netlink.Link) error {
	everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if err := replaceRoute(inside, link, everything, n.Cluster.HostAddress()); err != nil {
		return err
	}
	for number := 1; number <= plan.MaxNodes; number++ {
		other := n.Cluster.Node(number)
		if number == n.Number {
			continue
		}
		if err := replaceRoute(inside, link, other.PodNetwork(), other.Address()); err != nil {
			return err
		}
	}
	return nil
}

// replaceRoute works on the machine's own tables when handle is nil.
func replaceRoute(handle *netlink.Handle, link netlink.Link, to netip.Prefix, via netip.Addr) error {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Gw: via.AsSlice()}
	replace := netlink.RouteReplace
	if handle != nil {
		replace = handle.RouteReplace
	}
	if err := replace(route); err != nil {
		return fmt.Errorf("route %s by %s: %w", to, via, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func isNotFound(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound)
}
