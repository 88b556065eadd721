package main

// lanes returns the lanes of this build.
func (o options) lanes() ([]lane, error) {
	return []lane{o.topologyLane()}, nil
}
