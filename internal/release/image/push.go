package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// PushOptions says where and how images are pushed.
type PushOptions struct {
	// Registry is host[:port] with an optional path, e.g. registry.example.org/team.
	Registry string
	// Insecure allows plain HTTP. Registries on localhost never need it.
	Insecure bool
}

// Push sends an image with all its tags to a registry, with the credentials of the user's docker
// configuration, and returns the reference by digest.
func Push(ctx context.Context, built Built, opts PushOptions) (string, error) {
	var options []name.Option
	if opts.Insecure {
		options = append(options, name.Insecure)
	}
	repo, err := name.NewRepository(strings.TrimSuffix(opts.Registry, "/")+"/"+repositoryName(built.Ref), options...)
	if err != nil {
		return "", fmt.Errorf("registry %q: want host[:port][/path]: %w", opts.Registry, err)
	}
	img, err := loadLayout(built)
	if err != nil {
		return "", err
	}
	for _, ref := range built.Tags {
		tag := repo.Tag(ref[strings.LastIndex(ref, ":")+1:])
		err := remote.Write(tag, img, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return "", fmt.Errorf("push %s: %w", tag, err)
		}
	}
	return repo.Digest(built.Digest).String(), nil
}

// loadLayout opens the image of an OCI layout.
func loadLayout(built Built) (v1.Image, error) {
	digest, err := v1.NewHash(built.Digest)
	if err != nil {
		return nil, fmt.Errorf("image %s: digest %q: %w", built.Name, built.Digest, err)
	}
	l, err := layout.FromPath(built.Layout())
	if err != nil {
		return nil, fmt.Errorf("open OCI layout %s: %w", built.Layout(), err)
	}
	img, err := l.Image(digest)
	if err != nil {
		return nil, fmt.Errorf("open image %s in %s: %w", built.Digest, built.Layout(), err)
	}
	return img, nil
}
