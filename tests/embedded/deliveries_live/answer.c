/* An HTTP server in one static file: it answers every request with what the file named by its argument holds. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words) {
  char text[4096], request[4096], head[128];
  FILE *file = count > 2 ? fopen(words[2], "r") : NULL;
  if (!file) return 2;
  size_t size = fread(text, 1, sizeof text, file);
  int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 64)) return 1;
  for (;;) {
    int client = accept(server, NULL, NULL);
    if (client < 0) continue;
    if (read(client, request, sizeof request) > 0) {
      int length = snprintf(head, sizeof head, "HTTP/1.0 200 OK\r\nContent-Length: %zu\r\n\r\n", size);
      if (write(client, head, length) == length && write(client, text, size)) {}
    }
    close(client);
  }
}
