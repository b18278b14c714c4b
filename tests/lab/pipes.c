/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two processes hand a byte to each other, as often as the argument says. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) || pipe(back))
		return 1;
	if (!fork()) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1)
			if (write(back[1], &byte, 1) != 1)
				_exit(1);
		_exit(0);
	}
	for (long i = atol(argv[1]); i; i--)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
	return 0;
}
