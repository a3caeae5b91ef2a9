package service

import "context"

// Look is what the service does every ten seconds.
func (s *Service) Look(ctx context.Context) { s.look(ctx) }
