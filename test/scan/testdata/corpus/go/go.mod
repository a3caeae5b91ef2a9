module corpus.example

go 1.26
