/* burst MIB: write so many MiB to stdout, 64 KiB at a time. */
#include <stdlib.h>
#include <unistd.h>

static char buf[64 << 10];

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	for (long n = atol(argv[1]) * 16; n > 0; n--)
		for (size_t done = 0; done < sizeof buf;) {
			ssize_t m = write(1, buf + done, sizeof buf - done);
			if (m <= 0)
				return 1;
			done += m;
		}
	return 0;
}
