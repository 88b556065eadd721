// Package pki makes and judges the certificates of a cluster: one certificate authority per cluster, valid for ten years,
// and leaf certificates of ninety days that are renewed when less than thirty are left. Keys are ECDSA P-256.
//
// Judging is separate from making: what is stored is kept as long as it is good, so that nothing is renewed without need
// and no certificate changes under a running instance by accident. An authority whose Secret was lost is replaced; its
// certificate stays in the bundle that everybody trusts, so that the leaves it issued remain good until they are renewed.
package pki
