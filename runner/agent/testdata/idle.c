/* idle: say that it runs, then wait until stdin ends. */
#include <unistd.h>

int main(void)
{
	char c;
	if (write(1, "!", 1) != 1)
		return 1;
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
