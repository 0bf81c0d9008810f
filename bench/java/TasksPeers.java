import java.util.Map;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinTask;
import java.util.concurrent.RecursiveAction;

/** The peers of the tasks rows: so many empty tasks, started and joined. */
final class TasksPeers {
    private static final int WORKERS = 2;

    private static final class Empty extends RecursiveAction {
        @Override
        protected void compute() {}
    }

    /** Starts the others and joins them, the last first, as its queue gives them back. */
    private static final class Root extends RecursiveAction {
        private final ForkJoinTask<?>[] tasks;

        Root(int tasks) {
            this.tasks = new ForkJoinTask<?>[tasks];
        }

        @Override
        protected void compute() {
            for (int number = 0; number < tasks.length; number++) {
                tasks[number] = new Empty().fork();
            }
            for (int number = tasks.length - 1; number >= 0; number--) {
                tasks[number].join();
            }
        }
    }

    static Map<String, Peers.Row> rows() {
        ForkJoinPool pool = new ForkJoinPool(WORKERS);
        return Map.of(
            "tasks-outside", tasks -> outside(pool, (int) tasks),
            "tasks-worker", tasks -> inAWorker(pool, (int) tasks));
    }

    private static double outside(ForkJoinPool pool, int count) {
        long begin = System.nanoTime();
        ForkJoinTask<?>[] tasks = new ForkJoinTask<?>[count];
        for (int number = 0; number < count; number++) {
            tasks[number] = pool.submit(new Empty());
        }
        for (ForkJoinTask<?> task : tasks) {
            task.join();
        }
        return (System.nanoTime() - begin) / (double) count;
    }

    private static double inAWorker(ForkJoinPool pool, int count) {
        long begin = System.nanoTime();
        pool.invoke(new Root(count));
        return (System.nanoTime() - begin) / (double) count;
    }
}
