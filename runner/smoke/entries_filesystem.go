package smoke

func filesystemEntries() []Entry { return nil }
