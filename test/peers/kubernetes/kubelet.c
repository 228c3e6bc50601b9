/*
 * The process that is called kubelet on a machine of a rack: it prints its version, as agents ask
 * for it, and runs kubelet.ts, which does kubelet's work. Each version is compiled with
 * its VERSION.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void end(int sent) {
  kill(child, sent);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    puts("Kubernetes " VERSION);
    return 0;
  }
  setenv("KUBELET_VERSION", VERSION, 1);
  child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl("/repo/node_modules/.bin/node", "pods", "/repo/test/peers/kubernetes/kubelet.ts", NULL);
    _exit(127);
  }
  signal(SIGTERM, end);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
