// Package apply is the one way in which the cluster lane writes objects: server-side apply of typed apply configurations
// under one field owner, with a comparison first. The fields that this owner applied last are read out of the live
// object (from its managed fields) and compared with what is desired; when they are equal nothing is sent. A cluster in
// its desired state thus causes no API write at all, however often it is reconciled.
//
// Objects come from the caller's cache, with their managed fields: a cache that strips them makes every comparison fail.
package apply
