(ns reply)

(defn reply [body type]
  {:body body :type type})
