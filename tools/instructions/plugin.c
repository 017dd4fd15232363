/* A plugin of QEMU's user mode that counts the instructions of all threads of a program.
 *
 * The count is the first eight bytes of the file that COUNT_FILE names, so that it can be read while the program runs.
 * The declarations are those of qemu-plugin.h, version 1, which distributions do not ship. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct block;
typedef void (*translated_fn)(uint64_t plugin, struct block *block);
typedef void (*executed_fn)(unsigned int cpu, void *instructions);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t plugin, translated_fn translated);
size_t qemu_plugin_tb_n_insns(const struct block *block);
void qemu_plugin_register_vcpu_tb_exec_cb(struct block *block, executed_fn executed, int flags, void *instructions);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t *count;

static void executed(unsigned int cpu, void *instructions)
{
    (void)cpu;
    __atomic_fetch_add(count, (uint64_t)(uintptr_t)instructions, __ATOMIC_RELAXED);
}

static void translated(uint64_t plugin, struct block *block)
{
    (void)plugin;
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, (void *)qemu_plugin_tb_n_insns(block));
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t plugin, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    const char *name = getenv("COUNT_FILE");
    int file = name ? open(name, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, sizeof *count) != 0)
        return 1;
    count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (count == MAP_FAILED)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
    return 0;
}
