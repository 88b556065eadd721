// Package naming derives the names, labels, host names and well-known paths of everything that belongs to a
// MySQLCluster. It is pure, and the only place where such a name is put together.
//
// For a cluster `orders` in namespace `shop`:
//
//	instance      orders-0                                  (also StatefulSet, and its data volume's claim)
//	pod           orders-0-0                                (the StatefulSet's only pod)
//	host          orders-0-0.orders-instances.shop.svc      (stable while the pod comes and goes)
//	Services      orders-rw, orders-ro, orders-instances
package naming
