/** Vite makes a file of its own of a style sheet that a module imports. */
declare module '*.css';
